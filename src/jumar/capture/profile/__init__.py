"""Profiles a run: PyTorch's or the vendor's profiler between step borders, the data loader, the host, and pauses."""
