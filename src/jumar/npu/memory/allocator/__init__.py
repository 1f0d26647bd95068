"""The vendor's caching allocator, simulated."""

from __future__ import annotations

from jumar.npu.memory.allocator.caching import DEFAULT_POOL, PADDING, CachingAllocator, DoesNotFitError
from jumar.npu.memory.allocator.chunks import Chunk, PoolId
from jumar.npu.memory.allocator.config import AllocatorConfig, from_environment, parse
from jumar.npu.memory.allocator.replay import replay

__all__ = [
    "DEFAULT_POOL",
    "PADDING",
    "AllocatorConfig",
    "CachingAllocator",
    "Chunk",
    "DoesNotFitError",
    "PoolId",
    "from_environment",
    "parse",
    "replay",
]
