"""From a graph to the steps that Jumar's kernels run."""
