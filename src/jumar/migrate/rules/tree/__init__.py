"""Rules about a source tree as a whole; their checks are in `jumar.migrate.disk.walk`, `project` and `facts_words`."""

from __future__ import annotations

from jumar.migrate.rules.tree import (
    conversion_defect,
    folder_left_out,
    path_not_converted,
    symbolic_link,
    words_across_files,
)
from jumar.rules import Rule

RULES: tuple[Rule, ...] = (
    path_not_converted.RULE,
    symbolic_link.RULE,
    words_across_files.RULE,
    conversion_defect.RULE,
    folder_left_out.RULE,
)
"""In the order of their codes."""
