"""Opt-in rewrites to what an NPU computes faster. Tests prove each one equal."""
