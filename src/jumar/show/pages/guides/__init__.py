"""The guides that come with Jumar: the shelf that finds them, and their pages on the terminal."""
