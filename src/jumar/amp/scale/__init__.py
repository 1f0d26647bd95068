"""The scale of a loss from step to step, and where a skipped step comes from."""
