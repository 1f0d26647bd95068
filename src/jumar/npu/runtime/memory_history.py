"""`torch.npu.memory._record_memory_history`, `_snapshot`, `_dump_snapshot`: what pytorch.org/memory_viz shows."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import torch

from jumar.npu.core.devices import num_visible
from jumar.npu.memory import memory
from jumar.npu.memory.allocator import CachingAllocator
from jumar.npu.memory.allocator.history import History
from jumar.npu.memory.snapshot import memory_snapshot

_CONTEXTS = (None, "state", "alloc", "all")
"""Each keeps the stacks of the one before, too: of blocks in use, of allocations, of frees."""


def _record_memory_history(
    enabled: str | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: Any = None,  # noqa: ARG001 (the vendor's signature, and not used there either)
) -> None:
    """Keep the stacks of allocations from now on, with "all" a history of the allocator too; None ends that.

    A new call begins a new history of at most `max_entries` actions a device. `stacks` changes nothing: there are
    Python frames only. Raises RuntimeError for other words than the vendor's.
    """
    if enabled not in (None, "state", "all"):
        raise RuntimeError("expected state to be 'state', 'all', or None")
    if context not in _CONTEXTS:
        raise RuntimeError("expected context to be 'state', 'alloc', 'all', or None")
    if stacks not in ("python", "all"):
        raise RuntimeError("expected stacks to be 'python', or 'all'")
    level = _CONTEXTS.index(context) if enabled else 0
    for index in range(len(memory.DEVICES)):
        memory.settled(index)
    memory.record(
        None if enabled is None else lambda: History(max_entries if enabled == "all" else 1, level > 1),
        of_begin=level > 0,
        of_end=level > 2,
    )


def _snapshot(
    device: Any = None,  # noqa: ARG001 (the vendor's signature, and not used there either)
    augment_with_fx_traces: bool = False,
) -> dict[str, Any]:
    """Return the segments of all devices with their blocks, and the history of each device's allocator.

    With `augment_with_fx_traces` PyTorch adds to frames of code that FX generated what they came from.
    """
    allocators = [memory.settled(index) for index in range(num_visible())]
    found = {"segments": memory_snapshot(), "device_traces": [_trace(allocator) for allocator in allocators]}
    if augment_with_fx_traces:
        utils: Any = torch._utils
        found = utils._augment_memory_snapshot_stack_traces(found)
    return found


def _trace(allocator: CachingAllocator) -> list[dict[str, Any]]:
    """Return the history of an allocator, to which the snapshot itself is added."""
    history = allocator.history
    if history is None:
        return []
    active = sum(chunk.size for chunks in allocator.segments() for chunk in chunks if chunk.used)
    history.frames = []
    history.note("snapshot", active, 0, (0, 0), 0)
    return list(history.entries)


def _dump_snapshot(filename: str = "dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
    """Write `_snapshot` to a file that pytorch.org/memory_viz opens."""
    with Path(filename).open("wb") as file:
        pickle.dump(_snapshot(augment_with_fx_traces=augment_with_fx_traces), file)
