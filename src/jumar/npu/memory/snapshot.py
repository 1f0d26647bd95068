"""The segments and blocks of the caching allocator, as `torch.npu.memory_snapshot` returns them."""

from __future__ import annotations

from typing import Any

from jumar.npu.memory import memory
from jumar.npu.memory.allocator import Chunk, PoolId
from jumar.npu.memory.allocator.history import History


def memory_snapshot(mempool_id: PoolId | None = None) -> list[dict[str, Any]]:
    """Return the segments of all devices with their blocks, or those of one memory pool."""
    return [
        _segment(index, chunks, memory.settled(index).history)
        for index in range(len(memory.DEVICES))
        for chunks in memory.settled(index).segments()
        if mempool_id is None or chunks[0].pool.owner == tuple(mempool_id)
    ]


def _segment(index: int, chunks: list[Chunk], history: History | None) -> dict[str, Any]:
    used = [chunk for chunk in chunks if chunk.used]
    allocated = sum(chunk.size for chunk in used)
    pool = chunks[0].pool
    return {
        "device": index,
        "address": chunks[0].address,
        "total_size": sum(chunk.size for chunk in chunks),
        "allocated_size": allocated,
        "active_size": allocated,
        "requested_size": sum(chunk.requested for chunk in used),
        "stream": pool.stream,
        "segment_pool_id": pool.owner,
        "segment_type": "small" if pool.is_small else "large",
        "is_expandable": chunks[0].expandable,
        "frames": [] if history is None else history.segment_frames.get(chunks[0].address, []),
        "blocks": [
            {
                "address": chunk.address,
                "size": chunk.size,
                "requested_size": chunk.requested if chunk.used else 0,
                "state": "active_allocated" if chunk.used else "inactive",
                "frames": list(getattr(chunk.used, "frames", ())),
            }
            for chunk in chunks
        ],
    }
