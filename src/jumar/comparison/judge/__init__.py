"""Judges one pair of calls: rounding, inherited error or divergence."""
