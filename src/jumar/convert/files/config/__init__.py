"""Scans YAML, JSON, TOML and INI for values and their positions. The text is never parsed and written anew."""
