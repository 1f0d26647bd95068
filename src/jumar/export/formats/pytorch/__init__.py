"""PyTorch's files: read without running anything in them, a tensor at a time, and written as a stream."""
