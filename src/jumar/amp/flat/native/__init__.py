"""Kernels of our own: C++, compiled where it runs, and its caller."""
