"""Injected faults on four models, and whether comparing names them."""
