"""MindSpore scripts under observation: the same recording as of a PyTorch script. Imports no torch."""
