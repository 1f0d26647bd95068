"""Optimizers over flat buffers under their plain names."""
