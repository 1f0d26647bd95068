"""How a custom operator is declared and registered."""
