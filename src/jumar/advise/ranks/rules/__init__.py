"""One rule about several ranks a file."""
