"""The target `agnostic`: code that runs on any accelerator of PyTorch."""
