"""What is left of CUDA after conversion, and what stands for it."""

from __future__ import annotations

from types import ModuleType

MODULES: tuple[ModuleType, ...] = ()
"""Modules with a `RULE` and a `check`, in the order they run."""
