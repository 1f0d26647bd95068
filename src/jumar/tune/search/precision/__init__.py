"""Precision under an error budget: which operators of a graph may be computed in fewer bits, measured."""
