"""`kind_finding`: what kind of difference two banks have, with the options that change that."""

from __future__ import annotations

from collections.abc import Mapping

from jumar.base.findings import Finding, Json, Location, Severity
from jumar.base.text import listing
from jumar.tfadapter.checks.rules.tuned_otherwise import RULE
from jumar.tfadapter.options import names_that_change

ALL = 20


def kind_finding(kind: str, message: str, evidence: Mapping[str, Json], place: str = "") -> Finding:
    """Return the finding for one kind of difference; `place` is the bank."""
    names: list[Json] = list(names_that_change(kind))
    return RULE.finding(
        message,
        where=Location(path=place or None),
        evidence={**evidence, "kind": kind, "options": names},
        why="What tuning wrote is found under shapes, dtypes and structure: it will not be hit.",
        action=f"Give these options one value in tuning and use: {listing(map(str, names), ALL)}.",
        severity=Severity.WARNING,
    )
