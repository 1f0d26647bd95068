"""A conversion as a page and as text for the terminal."""
