"""Levels, and the casts that they make: of weights, inputs and outputs, functions; masters in checkpoints."""
