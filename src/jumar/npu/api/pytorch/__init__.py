"""Changes to PyTorch's own objects that the npu needs."""
