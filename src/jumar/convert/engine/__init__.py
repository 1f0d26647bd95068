"""The engine: one file, a whole tree, a pool of processes."""
