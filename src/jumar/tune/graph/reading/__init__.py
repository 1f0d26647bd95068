"""From an exported program to a `Graph`."""
