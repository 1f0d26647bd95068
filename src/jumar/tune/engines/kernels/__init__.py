"""Jumar's own kernels: convolution networks in float32 on the CPU, from C++ templates compiled on the machine."""
