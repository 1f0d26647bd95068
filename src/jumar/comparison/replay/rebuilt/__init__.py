"""Recorded calls made executable again: arguments, memory, place."""
