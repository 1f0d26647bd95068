"""`History`: what the allocator of one device did, for `torch.npu.memory._snapshot`.

The actions and their fields are those of `memory_snapshot.cpp` of github.com/Ascend/pytorch, which are PyTorch's.
"""

from __future__ import annotations

import sys
from collections import deque
from pathlib import Path
from typing import Any

from jumar.npu.memory.allocator.chunks import Chunk, PoolId

Frame = dict[str, Any]
Frames = list[Frame]

_OWN = str(Path(__file__).parents[4])
"""Frames of Jumar are the device's, and not shown."""


class History:
    """The last actions of one device's allocator, and the stack of each segment that it reserved."""

    def __init__(self, max_entries: int, keeps_frames: bool) -> None:
        self.entries: deque[dict[str, Any]] = deque(maxlen=max(1, min(max_entries, sys.maxsize)))
        self.keeps_frames = keeps_frames
        """Whether entries have frames; the blocks in use have theirs in any case."""
        self.frames: Frames = []
        """Where the program is that the allocator works for now."""
        self.segment_frames: dict[int, Frames] = {}
        """By the address of the segment."""

    def note(self, action: str, size_bytes: int, address: int, owner: PoolId, stream: int) -> None:
        """Add an action of the allocator; `address` is the memory that is left where `action` is `oom`."""
        entry: dict[str, Any] = {
            "action": action,
            "device_free" if action == "oom" else "addr": address,
            "size": size_bytes,
            "stream": stream,
            "pool_id": owner,
        }
        if self.keeps_frames:
            entry["frames"] = self.frames
        self.entries.append(entry)

    def note_chunk(self, action: str, chunk: Chunk, size_bytes: int) -> None:
        """Add an action on a chunk."""
        if action == "segment_alloc":
            self.segment_frames[chunk.address] = self.frames
        self.note(action, size_bytes, chunk.address, chunk.pool.owner, chunk.pool.stream)


def stack() -> Frames:
    """Return the frames of the program, the innermost first, without those of the device itself."""
    found: Frames = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_OWN):
            found.append({"name": code.co_name, "filename": code.co_filename, "line": frame.f_lineno or 0})
        frame = frame.f_back
    return found
