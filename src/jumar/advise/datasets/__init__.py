"""Reports of MindSpore's dataset autotune: what they suggest, and whether it is faster on this machine."""
