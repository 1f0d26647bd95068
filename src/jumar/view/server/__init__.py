"""The server: routes, what is refused, and how it is started and ended."""
