"""Runs a user's script in a process that is observed, and the processes that it starts."""
