"""Pairs the calls of two runs."""
