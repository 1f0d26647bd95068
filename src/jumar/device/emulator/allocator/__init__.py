"""The vendor's caching allocator, simulated."""

from __future__ import annotations

from jumar.device.emulator.allocator.caching import DEFAULT_POOL, PADDING, CachingAllocator, DoesNotFitError
from jumar.device.emulator.allocator.chunks import Chunk, PoolId
from jumar.device.emulator.allocator.config import AllocatorConfig, from_environment, parse
from jumar.device.emulator.allocator.replay import replay

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
