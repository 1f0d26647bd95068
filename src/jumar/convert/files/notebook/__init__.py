"""Converts the sources of the cells of Jupyter notebooks in place. Every other byte of the file stays."""
