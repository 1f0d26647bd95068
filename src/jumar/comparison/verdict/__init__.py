"""Draws the answer of a comparison from the evidence."""
