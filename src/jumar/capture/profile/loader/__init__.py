"""The data loader from inside: its workers' stages, the queue, the pinning thread."""
