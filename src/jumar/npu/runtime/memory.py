"""Memory statistics of `torch.npu`. Sizes are in bytes; the figures are those of the simulated allocator."""

from __future__ import annotations

import collections
import warnings
from typing import Any

from jumar.npu.core.devices import index_from
from jumar.npu.core.refusals import error_line
from jumar.npu.core.state import STATE
from jumar.npu.memory import memory, pinned
from jumar.npu.memory.allocator import parse
from jumar.npu.memory.allocator.stats import NAMES, NUM, RESERVED, SEGMENTS, SIZE
from jumar.npu.memory.memory import capacity_bytes, empty_cache
from jumar.npu.memory.memory_summary import summary
from jumar.npu.memory.pools import (
    MemPool,
    NPUPluggableAllocator,
    caching_allocator_alloc,
    caching_allocator_delete,
    change_current_allocator,
    get_allocator_backend,
    use_mem_pool,
)
from jumar.npu.memory.snapshot import memory_snapshot
from jumar.npu.runtime.memory_history import _dump_snapshot, _record_memory_history, _snapshot

__all__ = [
    "MemPool",
    "NPUPluggableAllocator",
    "_dump_snapshot",
    "_record_memory_history",
    "_snapshot",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "change_current_allocator",
    "empty_cache",
    "empty_virt_addr_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_empty_cache",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
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
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
    "use_mem_pool",
]


def memory_allocated(device: Any = None) -> int:
    """Return the bytes of live storages, each rounded up as the allocator does."""
    return memory.settled(index_from(device)).stats.current(SIZE)


def max_memory_allocated(device: Any = None) -> int:
    """Return the most bytes that were allocated at once since the start or the last reset."""
    return memory.settled(index_from(device)).stats.peaks[SIZE]


def memory_reserved(device: Any = None) -> int:
    """Return the bytes that the allocator holds, in use or cached."""
    return memory.settled(index_from(device)).stats.current(RESERVED)


def max_memory_reserved(device: Any = None) -> int:
    """Return the most bytes that the allocator held at once since the start or the last reset."""
    return memory.settled(index_from(device)).stats.peaks[RESERVED]


def memory_cached(device: Any = None) -> int:
    """Return `memory_reserved`, with the vendor's DeprecationWarning."""
    _deprecated("torch_npu.npu.memory_cached has been renamed to torch_npu.npu.memory_reserved")
    return memory_reserved(device)


def max_memory_cached(device: Any = None) -> int:
    """Return `max_memory_reserved`, with the vendor's DeprecationWarning."""
    _deprecated("torch_npu.npu.max_memory_cached has been renamed to torch_npu.npu.max_memory_reserved")
    return max_memory_reserved(device)


def _deprecated(message: str) -> None:
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return the free and the total bytes of the device; what this process reserved is not free."""
    total = capacity_bytes()
    return max(0, total - memory_reserved(device)), total


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Return the statistics as nested dictionaries, under the vendor's keys."""
    allocator = memory.settled(index_from(device))
    stats = allocator.stats
    return {
        "num_alloc_retries": stats.num_alloc_retries,
        "num_ooms": stats.num_ooms,
        "max_split_size": allocator.config.max_split_bytes if allocator.config.limits_split else -1,
        "num_sync_all_streams": stats.num_sync_all_streams,
        "num_device_alloc": stats.num_device_alloc,
        "num_device_free": stats.num_device_free,
        "num_oom_rejections": 0,
        **{name: stats.figures(figure) for name, figure in NAMES.items()},
        "oversize_allocations": stats.oversize.figures(NUM),
        "oversize_segments": stats.oversize.figures(SEGMENTS),
    }


def memory_stats(device: Any = None) -> dict[str, int]:
    """Return the statistics by dotted name, e.g. `allocated_bytes.all.peak`."""
    return _flat(memory_stats_as_nested_dict(device))


def _flat(nested: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}

    def add(prefix: str, value: Any) -> None:
        if not isinstance(value, dict):
            found[prefix] = value
            return
        for key, item in value.items():
            add(f"{prefix}.{key}" if prefix else key, item)

    add("", nested)
    return collections.OrderedDict(sorted(found.items()))


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Return the statistics as the vendor's table for people."""
    index = index_from(device)
    return summary(index, memory_stats(index), abbreviated)


def empty_virt_addr_cache() -> None:
    """Give cached memory back, as `empty_cache` does: address ranges are not a resource here."""
    empty_cache()


def ipc_collect() -> None:
    """Do nothing: no memory is shared through device handles."""


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the peaks begin again at what is there now."""
    memory.settled(index_from(device)).stats.reset_peak()


def reset_max_memory_allocated(device: Any = None) -> None:
    """Reset all peaks, with the vendor's DeprecationWarning."""
    _deprecated(_RESETS_ALL.format("allocated"))
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Any = None) -> None:
    """Reset all peaks, with the vendor's DeprecationWarning."""
    _deprecated(_RESETS_ALL.format("cached"))
    reset_peak_memory_stats(device)


_RESETS_ALL = (
    "torch_npu.npu.reset_max_memory_{} now calls torch_npu.npu.reset_peak_memory_stats, which resets /all/ peak "
    "memory stats."
)


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Let the sums, and the counts of retries and of out-of-memory errors, begin again at 0."""
    memory.settled(index_from(device)).stats.reset_sums()


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Limit what this process may reserve to a fraction of the device; beyond it, memory is out.

    Raises TypeError for a fraction that is no float, ValueError outside 0 to 1.
    """
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`" + error_line("PTA", 2, "invalid type"))
    if not 0 <= fraction <= 1:
        code = error_line("PTA", 3, "invalid value")
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1{code}")
    memory.set_fraction(fraction, index_from(device))


def get_per_process_memory_fraction(device: Any = None) -> float:
    """Return the fraction set with `set_per_process_memory_fraction`, 1.0 by default."""
    return float(STATE.options.get(f"memory_fraction:{index_from(device)}", 1.0))


def _set_allocator_settings(settings: str) -> None:
    """Switch `expandable_segments` for allocations from now on. Raises RuntimeError for any other option."""
    key = settings.partition(":")[0].strip()
    if key != "expandable_segments":
        raise RuntimeError(f"torch_npu.npu.memory._set_allocator_settings() unsupported setting: {key}")
    for index in range(len(memory.DEVICES)):
        allocator = memory.settled(index)
        allocator.config = parse(settings, allocator.config)


def host_empty_cache() -> None:
    """Do nothing: pinned host memory is not cached."""


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Return the statistics of pinned host memory."""
    return pinned.statistics()


def host_memory_stats() -> dict[str, int]:
    """Return the statistics of pinned host memory by dotted name, e.g. `allocated_bytes.current`."""
    return _flat(pinned.statistics())


def reset_accumulated_host_memory_stats() -> None:
    """Let the sums of pinned host memory begin again at 0."""
    pinned.reset_sums()


def reset_peak_host_memory_stats() -> None:
    """Let the peaks of pinned host memory begin again at what is there now."""
    pinned.reset_peaks()
