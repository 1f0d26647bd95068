"""Recording and profiling from within a program: `with` blocks, and callbacks of training libraries."""
