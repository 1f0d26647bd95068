"""Rows of a profile: what ran, when, for how long."""
