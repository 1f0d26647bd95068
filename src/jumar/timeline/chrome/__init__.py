"""Traces in Chrome's JSON format, read in a stream."""
