"""Graphs in fewer bits: casts and scales written into a graph, so that every engine can compute it."""
