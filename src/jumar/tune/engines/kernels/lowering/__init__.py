"""From steps to a program of Jumar's kernels."""
