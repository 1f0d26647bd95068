"""Findings about a source tree as a whole and about files that cannot be read, one page each."""
