"""Reads trees of files, writes them whole or not at all, and keeps results between runs."""
