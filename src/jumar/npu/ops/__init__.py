"""Operators with kernels of their own, and the vendor's custom operators."""
