"""Makes recorded calls executable again: their arguments, their memory and the place where they run."""
