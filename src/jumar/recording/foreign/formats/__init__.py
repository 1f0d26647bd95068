"""Readers and writers of dump formats, one format each."""
