"""A Python source as a tree that gives back every byte: positions, scopes, and what each name stands for."""
