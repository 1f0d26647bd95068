"""Reads shell commands with the position of every character of every word, and converts them."""
