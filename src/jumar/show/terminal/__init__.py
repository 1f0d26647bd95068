"""Pages, findings and progress in the terminal."""
