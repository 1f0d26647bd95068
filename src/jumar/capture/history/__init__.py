"""The history of a run while it is made: a few numbers of every step, whether it is recorded in detail or not."""
