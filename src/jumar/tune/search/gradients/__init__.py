"""Gradient bucketing: in how many all-reduces the gradients of a step travel, and where they are cut."""
