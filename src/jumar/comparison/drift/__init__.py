"""Two runs over all their steps: where a drift begins, and what changed there. `find_drift` looks for it."""
