"""`PYTORCH_NPU_ALLOC_CONF`: the options of the caching allocator, with the vendor's checks.

Options are those of PyTorch's allocators (`c10/core/AllocatorConfig.h`) and of torch_npu's
(`NPUAllocatorConfig.cpp`). Those that choose what memory is taken from the driver are emulated; those
that concern pinned host memory, addresses or locks are checked and change nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

MIB = 2**20
UNLIMITED = 2**63 - 1
LARGE_SEGMENT = 20 * MIB

_VARIABLES = ("PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_WITHOUT_EFFECT = frozenset(
    {
        "pinned_mem_register",
        "base_addr_aligned_kb",
        "page_size",
        "multi_stream_lazy_reclaim",
        "pinned_reserve_segment_size_mb",
        "release_lock_on_npumalloc",
        "throw_on_npumalloc_oom",
        "per_process_memory_fraction",
        "pinned_use_background_threads",
        "pinned_max_round_threshold_mb",
        "pinned_max_cached_size_mb",
    }
)
_ROUNDUP_FIRST, _ROUNDUP_NUM = 20, 16
"""Roundup divisions are given for sizes by power of two, from 1 MiB on, in 16 classes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorConfig:
    """The options, in bytes. The defaults are the vendor's."""

    max_split_bytes: int = UNLIMITED
    """Chunks of at least this size are never split."""
    max_non_split_rounding_bytes: int = UNLIMITED
    """How much larger than the request an unsplit chunk may be."""
    garbage_collection_threshold: float = 0.0
    """Share of the allowed memory from which old cached segments are given back; works with a memory fraction."""
    expandable_segments: bool = False
    """Whether segments grow by pages, which leaves fewer gaps."""
    large_segment_bytes: int = LARGE_SEGMENT
    segment_bytes: int = 0
    """`segment_size_mb`, which the vendor deprecates: only what an expandable segment grows by."""
    pin_memory_expandable_segments: bool = False
    """Whether pinned memory comes in expandable segments, which excludes the capture of graphs."""
    roundup_power2_divisions: tuple[int, ...] = ()
    is_plain: bool = True
    """True where nothing is set that changes which chunk serves a request."""

    @property
    def limits_split(self) -> bool:
        """Whether `max_split_size_mb` was given."""
        return self.max_split_bytes != UNLIMITED

    @property
    def page_bytes(self) -> int:
        """Bytes that an expandable segment of the large pool grows by."""
        return (
            self.large_segment_bytes
            if self.large_segment_bytes != LARGE_SEGMENT
            else self.segment_bytes or LARGE_SEGMENT
        )

    def roundup_divisions(self, size: int) -> int:
        """Return into how many steps a power of two is divided when `size` is rounded; 0: not at all."""
        if not self.roundup_power2_divisions:
            return 0
        position = min(max(size.bit_length() - 1 - _ROUNDUP_FIRST, 0), _ROUNDUP_NUM - 1)
        return self.roundup_power2_divisions[position]


def from_environment(environ: Mapping[str, str] = os.environ) -> AllocatorConfig:
    """Return the options in `PYTORCH_NPU_ALLOC_CONF`, else `PYTORCH_ALLOC_CONF`. Raises as `parse`."""
    return parse(next((environ[name] for name in _VARIABLES if environ.get(name)), ""))


def parse(text: str, start: AllocatorConfig | None = None) -> AllocatorConfig:
    """Return the options in `key:value,key:value`, the others as in `start`.

    Raises ValueError for an unknown key, RuntimeError for a value outside its range or options that exclude
    each other, in the words of PyTorch and torch_npu.
    """
    config = start or AllocatorConfig()
    compact = "".join(text.split())
    for entry in filter(None, re.split(r",(?![^\[]*\])", compact)):
        key, colon, value = entry.partition(":")
        if key not in _READERS and key not in _WITHOUT_EFFECT:
            raise ValueError(f"Unrecognized key '{key}' in NPU allocator config.")
        if not colon or not value:
            raise RuntimeError(f"Error, expecting {key} value")
        if key in _READERS:
            config = _READERS[key](config, value)
    if config.expandable_segments and (config.limits_split or config.garbage_collection_threshold):
        raise RuntimeError(
            "`max_split_size_mb` or `garbage_collection_threshold`, cannot be enabled with `expandable_segments`, "
            "please set `expandable_segments` to `False`."
        )
    changes = config.limits_split or config.garbage_collection_threshold or config.expandable_segments
    # NOTE: chunks that were made under other options stay, so what was not plain stays so.
    was_plain = start is None or start.is_plain
    return replace(config, is_plain=was_plain and not (changes or config.roundup_power2_divisions))


def _whole(key: str, value: str) -> int:
    if not value.isdecimal():
        raise RuntimeError(f"CachingAllocator option {key} is invalid.")
    return int(value)


def _large(key: str, value: str, config: AllocatorConfig) -> int:
    """Return a size in bytes that must be at least that of a large segment."""
    size, least = _whole(key, value) * MIB, config.large_segment_bytes
    if size < least:
        raise RuntimeError(f"CachingAllocator option {key} too small, must be >= {least // MIB}")
    return size


def _max_split(config: AllocatorConfig, value: str) -> AllocatorConfig:
    return replace(config, max_split_bytes=_large("max_split_size_mb", value, config))


def _max_rounding(config: AllocatorConfig, value: str) -> AllocatorConfig:
    return replace(config, max_non_split_rounding_bytes=_large("max_non_split_rounding_mb", value, config))


def _threshold(config: AllocatorConfig, value: str) -> AllocatorConfig:
    try:
        share = float(value)
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise RuntimeError("garbage_collect_threshold is invalid, set it in (0.0, 1.0)")
    return replace(config, garbage_collection_threshold=share)


def _switch(key: str, value: str) -> bool:
    if value not in ("True", "False"):
        raise ValueError(f"Expected 'True' or 'False' for {key} but got '{value}'")
    return value == "True"


def _expandable(config: AllocatorConfig, value: str) -> AllocatorConfig:
    return replace(config, expandable_segments=_switch("expandable_segments", value))


def _expandable_pinned(config: AllocatorConfig, value: str) -> AllocatorConfig:
    key = "pin_memory_expandable_segments"
    return replace(config, pin_memory_expandable_segments=_switch(key, value))


def _large_segment(config: AllocatorConfig, value: str) -> AllocatorConfig:
    size = _whole("large_segment_size_mb", value) * MIB
    if size <= 2 * MIB:
        raise RuntimeError("CachingAllocator option large_segment_size_mb must be > 2")
    return replace(config, large_segment_bytes=size)


def _segment_size(config: AllocatorConfig, value: str) -> AllocatorConfig:
    size = _whole("segment_size_mb", value)
    if not 20 <= size <= 512:
        raise RuntimeError("CachingAllocator option segment_size_mb error, must be [20, 512], dtype is int")
    return replace(config, segment_bytes=size * MIB)


def _roundup(config: AllocatorConfig, value: str) -> AllocatorConfig:
    """`8`, or `[256:1,512:2,1024:4,>:8]`: divisions by the power of two, in MiB, from which on they hold.

    They hold up to the next power. The first entry holds for smaller sizes too, `>` for all after the last one; powers
    that are left out have none.
    """
    if not value.startswith("["):
        return replace(config, roundup_power2_divisions=(_divisions(value),) * _ROUNDUP_NUM)
    found = [0] * _ROUNDUP_NUM
    last = 0
    for entry in value.strip("[]").split(","):
        bound, _, divisions = entry.partition(":")
        if bound == ">":
            found[last:] = [_divisions(divisions)] * (_ROUNDUP_NUM - last)
            break
        size = _whole("roundup_power2_divisions", bound)
        if size & (size - 1) or not size:
            raise RuntimeError("For roundups, the intervals have to be power of 2 ")
        until = min(size.bit_length() - 1, _ROUNDUP_NUM - 1)
        for position in range(until if last else 0, until + 1):
            found[position] = _divisions(divisions)
        last = until + 1
    return replace(config, roundup_power2_divisions=tuple(found))


def _divisions(value: str) -> int:
    number = _whole("roundup_power2_divisions", value)
    if number & (number - 1):
        raise RuntimeError("For roundups, the divisions has to be power of 2 or 0 to disable roundup ")
    return number


_READERS: dict[str, Callable[[AllocatorConfig, str], AllocatorConfig]] = {
    "large_segment_size_mb": _large_segment,
    "max_split_size_mb": _max_split,
    "max_non_split_rounding_mb": _max_rounding,
    "garbage_collection_threshold": _threshold,
    "roundup_power2_divisions": _roundup,
    "expandable_segments": _expandable,
    "segment_size_mb": _segment_size,
    "pin_memory_expandable_segments": _expandable_pinned,
}
