"""Single rewrites of scripted modules."""
