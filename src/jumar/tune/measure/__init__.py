"""Measurements: worker processes, budgets, resumed runs, clusters, and the state of the machine before a run."""
