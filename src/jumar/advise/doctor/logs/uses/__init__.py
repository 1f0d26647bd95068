"""What is made of a diagnosis: the first unlisted error, and the cause of a failed run."""
