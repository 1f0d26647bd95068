"""Text of profilers: numbers, CSV tables and JSON, read through damage; what was lost, in sentences."""
