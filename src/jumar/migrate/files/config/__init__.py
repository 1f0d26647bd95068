"""YAML, JSON, TOML and INI: scanned for values and their positions, never parsed and written anew."""
