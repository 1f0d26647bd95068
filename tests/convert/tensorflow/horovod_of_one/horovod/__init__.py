"""Horovod with one process, for originals that need it."""
