"""Tensors of one side in PyTorch's form, and the words of their names."""
