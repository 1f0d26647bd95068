"""Tensors of a recording in HDF5 files: written, read slice by slice, views stored once."""
