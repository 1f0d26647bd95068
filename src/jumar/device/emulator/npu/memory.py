"""Memory statistics, in the names and keys of `torch.cuda.memory`. Sizes are in bytes.

The emulated device gives memory back as soon as it is freed, so what is reserved equals what is
allocated, and there is nothing to empty.
"""

from __future__ import annotations

import collections
from typing import Any

from jumar.device.emulator.devices import index_from
from jumar.device.emulator.memory import Pool, pool
from jumar.device.emulator.state import STATE

__all__ = [
    "empty_cache",
    "get_per_process_memory_fraction",
    "ipc_collect",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]

DEFAULT_CAPACITY_BYTES = 64 * 2**30
"""For a SoC whose memory is not public; the Atlas training cards have 32 or 64 GiB."""


def _pool(device: Any) -> Pool:
    return pool(index_from(device))


def capacity_bytes() -> int:
    """Return the memory of one device of the emulated SoC."""
    return STATE.settings.memory_bytes or STATE.profile.memory_bytes or DEFAULT_CAPACITY_BYTES


def memory_allocated(device: Any = None) -> int:
    """Return the bytes of live storages."""
    return _pool(device).allocated


def max_memory_allocated(device: Any = None) -> int:
    """Return the most bytes that were live at once since the start or the last reset."""
    return _pool(device).peak


memory_reserved = memory_cached = memory_allocated
max_memory_reserved = max_memory_cached = max_memory_allocated


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return the free and the total bytes of the device."""
    total = capacity_bytes()
    return max(0, total - _pool(device).allocated), total


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Return the statistics as nested dictionaries."""
    used = _pool(device)
    sizes = {
        "current": used.allocated,
        "peak": used.peak,
        "allocated": used.total_allocated,
        "freed": used.total_allocated - used.allocated,
    }
    counts = {
        "current": used.num_live,
        "peak": used.peak_live,
        "allocated": used.num_allocations,
        "freed": used.num_frees,
    }
    return {
        **{f"{name}_bytes": {"all": sizes} for name in ("allocated", "reserved", "active", "requested")},
        **{name: {"all": counts} for name in ("allocation", "segment", "active")},
        "num_alloc_retries": 0,
        "num_ooms": 0,
    }


def memory_stats(device: Any = None) -> dict[str, int]:
    """Return the statistics by dotted name, e.g. `allocated_bytes.all.peak`."""
    flat: dict[str, int] = {}

    def add(prefix: str, value: Any) -> None:
        if not isinstance(value, dict):
            flat[prefix] = value
            return
        for key, item in value.items():
            add(f"{prefix}.{key}" if prefix else key, item)

    add("", memory_stats_as_nested_dict(device))
    return collections.OrderedDict(sorted(flat.items()))


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:  # noqa: ARG001 (PyTorch's signature)
    """Return the statistics as a table for people."""
    index = index_from(device)
    stats = memory_stats(index)
    rows = [("Allocated memory", "allocated_bytes"), ("Active memory", "active_bytes"), ("Allocations", "allocation")]
    lines = [f"Memory of the emulated npu:{index} (bytes, counts)"]
    lines.append(f"{'Metric':<20}" + "".join(f"{title:>16}" for title in ("Current", "Peak", "Total", "Freed")))
    for title, key in rows:
        cells = "".join(f"{stats[f'{key}.all.{column}']:>16}" for column in ("current", "peak", "allocated", "freed"))
        lines.append(f"{title:<20}{cells}")
    return "\n".join(lines)


def memory_snapshot(*_: Any, **__: Any) -> list[dict[str, Any]]:
    """Return one entry for each live storage of all devices."""
    return [
        {"device": index, "total_size": block.size_bytes, "allocated_size": block.size_bytes}
        for index in range(STATE.num_devices)
        for block in tuple(pool(index).live)
    ]


def empty_cache() -> None:
    """Do nothing: freed memory is given back at once."""


def ipc_collect() -> None:
    """Do nothing: no memory is shared through device handles."""


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the peak begin again at what is allocated now."""
    _pool(device).reset_peak()


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Let the totals begin again at what is live now."""
    _pool(device).reset_totals()


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Remember the fraction of a device's memory this process may use. Raises ValueError outside 0 to 1."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    STATE.options[f"memory_fraction:{index_from(device)}"] = float(fraction)


def get_per_process_memory_fraction(device: Any = None) -> float:
    """Return the fraction set with `set_per_process_memory_fraction`, 1.0 by default."""
    return float(STATE.options.get(f"memory_fraction:{index_from(device)}", 1.0))
