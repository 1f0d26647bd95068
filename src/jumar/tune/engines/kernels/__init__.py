"""Jumar's own kernels: convolution networks in float32 on the CPU, from C++ templates compiled on the machine."""

from __future__ import annotations

from jumar.tune.engines.kernels.engine import Kernels

__all__ = ["Kernels"]
