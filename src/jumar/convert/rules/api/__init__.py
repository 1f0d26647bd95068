"""Rules for the interfaces of CUDA that have a counterpart."""
