"""Source to source: CUDA PyTorch in, NPU PyTorch out, byte for byte the same outside the edits."""
