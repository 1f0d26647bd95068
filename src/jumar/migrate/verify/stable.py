"""JM189, too: a second conversion finds nothing to change."""

from __future__ import annotations

from collections.abc import Iterator

from jumar.findings import Finding
from jumar.migrate.engine import convert_file
from jumar.migrate.facts.project import ProjectFacts
from jumar.migrate.options import ConvertOptions
from jumar.migrate.rules.proof import CHANGES_OUTSIDE_EDITS
from jumar.migrate.verify.model import Pair


def check(pair: Pair, options: ConvertOptions, project: ProjectFacts) -> Iterator[Finding]:
    """Convert the result once more and report what that changes."""
    first = pair.outcome.after
    again = convert_file(first, pair.path, options, project)
    if again is None or again.after == first:
        return
    old, new = first.split(b"\n"), again.after.split(b"\n")
    line = next((i for i, (a, b) in enumerate(zip(old, new, strict=False), 1) if a != b), min(len(old), len(new)))
    codes = sorted({finding.code for finding in again.findings if finding.evidence.get("applied")})
    yield pair.finding(
        CHANGES_OUTSIDE_EDITS, f"a second conversion changes this line again ({', '.join(codes)})", line, rules=codes
    )
