"""Reads a Python source as a tree that gives back every byte, with positions, scopes and qualified names."""
