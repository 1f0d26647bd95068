"""The events of one rank, and where they come from."""
