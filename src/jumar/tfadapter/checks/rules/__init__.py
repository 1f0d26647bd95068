"""One rule a file: `find(given)` yields findings."""
