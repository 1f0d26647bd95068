"""The counterpart of a name of `torch.cuda` in code that names no vendor.

There are four homes. `torch.accelerator` has interfaces of its own, which raise where no accelerator is
there. The *device module* (`torch.get_device_module(DEVICE_TYPE)`) is `torch.cuda`, `torch.npu` or
`torch.cpu`: on CUDA it is the very function the program called before. A neutral name of `torch` is the
same object everywhere. What torch.npu does not have stays with CUDA.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jumar.convert.model.api_map import Counterpart, counterpart

Home = Literal["accelerator", "module", "torch", "none"]


@dataclass(frozen=True, slots=True)
class Neutral:
    """Where a name goes: `name` is what it is called there."""

    home: Home
    name: str
    on_cpu: str | None = None
    """What the CUDA function answers where there is no CUDA device; None: it raises there."""
    hint: str = ""


_ACCELERATOR = {
    "is_available": "is_available", "device_count": "device_count", "synchronize": "synchronize",
    "current_device": "current_device_index", "set_device": "set_device_index", "empty_cache": "empty_cache",
    "memory_allocated": "memory_allocated", "max_memory_allocated": "max_memory_allocated",
    "memory_reserved": "memory_reserved", "max_memory_reserved": "max_memory_reserved",
    "memory_stats": "memory_stats", "reset_peak_memory_stats": "reset_peak_memory_stats",
    "reset_accumulated_memory_stats": "reset_accumulated_memory_stats", "mem_get_info": "get_memory_info",
    "device": "device_index",
}  # fmt: skip
"""torch.cuda name -> torch.accelerator name with the same meaning.

Left out on purpose: get_device_capability has another result, and streams of torch.accelerator are not
the objects that torch.cuda.Stream makes, so a program that mixes both would mix two types.
"""

ANYWHERE = frozenset({"is_available", "device_count"})
"""torch.accelerator functions that answer without an accelerator, too."""

TAKES_DEVICE = frozenset(_ACCELERATOR.values()) - {
    "is_available",
    "device_count",
    "empty_cache",
    "current_device_index",
}
"""torch.accelerator functions whose one parameter, a device, is positional only."""

ON_CPU_MODULE = frozenset({"synchronize", "current_device", "set_device", "current_stream", "stream", "Stream"})
"""Names that torch.cpu has with the meaning of torch.cuda's, doing nothing."""

_ON_CPU = {
    "empty_cache": "None", "memory_allocated": "0", "max_memory_allocated": "0", "memory_reserved": "0",
    "max_memory_reserved": "0", "memory_stats": "{}", "reset_peak_memory_stats": "None",
    "reset_accumulated_memory_stats": "None", "manual_seed": "None", "manual_seed_all": "None", "seed": "None",
    "seed_all": "None", "get_rng_state_all": "[]", "set_rng_state_all": "None", "is_initialized": "False",
    "is_bf16_supported": "False", "memory_cached": "0", "max_memory_cached": "0",
}  # fmt: skip

_NOTES = {
    "get_device_capability": "Its result differs: (major, minor) on CUDA, None on an NPU; there is none on a CPU.",
    "get_device_properties": "The properties differ between devices (major, minor, multi_processor_count are CUDA's).",
    "Event": "On a CPU there are no device events; measure with time.perf_counter() there.",
}
_HINTS = {
    "CUDAGraph": "torch.accelerator.Graph captures on any accelerator; its interface differs.",
    "CUDAPluggableAllocator": "Write the allocator for each accelerator.",
}

_SUBMODULES = frozenset({"memory", "random", "streams"})
"""Submodules whose functions torch.cuda offers itself, too."""


def neutral(name: str) -> Neutral:
    """Return where `name` (`torch.cuda`, or under it, torch.cuda.amp aside) goes."""
    parts = name.split(".")[2:]
    if not parts:
        return Neutral("module", "")
    if len(parts) > 1 and parts[0] in _SUBMODULES:
        parts = parts[1:]
    head, tail = parts[0], "".join(f".{part}" for part in parts[1:])
    npu = counterpart(f"torch.cuda.{'.'.join(parts)}")
    if npu.kind == "moved":
        return Neutral("torch", (npu.name or "").removeprefix("torch."))
    if not tail and head in _ACCELERATOR:
        return Neutral("accelerator", _ACCELERATOR[head], _ON_CPU.get(head))
    if npu.kind != "same":
        return Neutral("none", "", hint=_HINTS.get(head, npu.hint) or "It stays with CUDA; guard it.")
    return Neutral("module", head + tail, _ON_CPU.get(head) if not tail else None, _NOTES.get(head, ""))


def as_counterpart(name: str) -> Counterpart:
    """Return `neutral(name)` as a `Counterpart`."""
    if name == "torch.cuda.amp" or name.startswith("torch.cuda.amp."):
        return counterpart(name)
    found = neutral(name)
    if found.home == "none":
        return Counterpart("missing", None, found.hint)
    if found.home == "torch":
        return Counterpart("moved", f"torch.{found.name}")
    if found.home == "accelerator":
        same = found.name == name.rpartition(".")[2]
        return Counterpart("same" if same else "renamed", f"torch.accelerator.{found.name}")
    return Counterpart("same", "torch.get_device_module()" + (f".{found.name}" if found.name else ""), found.hint)
