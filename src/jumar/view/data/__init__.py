"""Reads one result in pieces: rows of a recording, curves, trees of a comparison, candidates of a tuning run."""
