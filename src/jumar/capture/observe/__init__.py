"""The observer of a run: all watchers together, the graphs of compiled regions, the budget at work."""
