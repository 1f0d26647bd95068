"""Findings about files that are not Python sources. `jumar.convert.files` raises them."""
