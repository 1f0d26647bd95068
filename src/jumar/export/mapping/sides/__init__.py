"""Where the names of a map come from: checkpoints, and models that a factory makes."""
