"""Training steps: the forms in which an engine runs them."""
