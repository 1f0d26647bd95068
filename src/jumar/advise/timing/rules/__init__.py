"""One rule about a timeline a file."""
