"""What to record: the plan, the patterns over row keys and the budget. Imports no torch."""
