"""How the rules of this group read expressions and replace them."""
