"""How a user's rule is applied to calls, imports and names."""
