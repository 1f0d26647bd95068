"""What is compared and what a comparison says: calls, options, settings and results."""
