"""How far two tensors are apart, and how far two correct devices may be apart."""
