"""Watches modules, operators, gradients, optimizers and steps, and notes them in the notebook."""
