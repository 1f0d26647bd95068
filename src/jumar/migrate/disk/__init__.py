"""Trees of files: walked, read at one moment, written whole or not at all, and results kept between runs."""
