"""What differs between versions of PyTorch: a back end's registration, and kernels called in a boxed way."""
