"""Jupyter notebooks: the cells' sources are converted in place; every other byte of the file stays."""
