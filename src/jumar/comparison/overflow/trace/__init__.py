"""Follows NaN, Inf and saturated values through the calls of a step."""
