"""Which modules of two programs belong together."""
