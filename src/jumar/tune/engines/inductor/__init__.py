"""TorchInductor as an engine."""
