"""Memory statistics."""

from __future__ import annotations

from typing import Any

from jumar.device.emulator.memory import pool

__all__ = ["empty_cache", "max_memory_allocated", "memory_allocated", "reset_peak_memory_stats"]


def memory_allocated(device: Any = None) -> int:
    """Bytes of live storages."""
    return pool(0).allocated


def max_memory_allocated(device: Any = None) -> int:
    """Peak bytes of live storages."""
    return pool(0).peak


def empty_cache() -> None:
    """Do nothing: freed memory is given back at once."""


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begin the peak again."""
    pool(0).reset_peak()
