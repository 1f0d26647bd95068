"""One line of a log: what launchers put before it, and whether it names an error."""
