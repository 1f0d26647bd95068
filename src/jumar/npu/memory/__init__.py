"""Memory of the emulated NPU: the caching allocator, limits, storages, pinned host memory, sharing."""
