"""This process and those it starts: PyTorch's threads, the garbage collector, and how a Python child is started."""
