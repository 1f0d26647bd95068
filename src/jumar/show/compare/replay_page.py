"""The page of `jumar replay`: the answer, then operators with their three numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jumar.base.findings import Finding
from jumar.base.text.digits import Cell
from jumar.comparison.replay import Replayed
from jumar.comparison.replay.findings import ranked
from jumar.show.blocks.findings import finding_list
from jumar.show.blocks.page import Action, Column, Heat, Page, Section, Table, Text, Verdict
from jumar.show.compare.replay import headline

MAX_OPERATORS = 400

ABOUT = (
    "Own error: the recorded output against the same operator executed in float64 on the CPU from the recorded "
    "inputs. Reference: the same for the reference's recording. Inherited: float64 from this recording's inputs "
    "against float64 from the reference's. Errors are the greater of the L2 and the greatest elementwise distance, "
    "each relative to the scale of the calculation; `rounding` is what the dtype and the number of terms explain."
)


def replay_page(replayed: Sequence[Replayed], findings: Sequence[Finding]) -> Page:
    """Return the page for what was replayed."""
    rows = ranked(replayed)
    faults = any(row.verdict == "own fault" for row in rows)
    known = any(row.cause is None for row in rows)
    sections = [
        _operators(rows),
        _modules(rows),
        Section(title="Findings", blocks=[finding_list(findings, empty="No finding.")]),
        _left_out(rows),
        Section(title="What the numbers are", blocks=[Text(text=ABOUT)], collapsed=True),
    ]
    return Page(
        title="Replayed operators",
        verdict=Verdict(
            status="failed" if faults else "fine" if known else "attention",
            headline=headline(replayed),
            details=[finding.message for finding in findings if finding.code != "JM325"],
        ),
        actions=[Action(title=finding.action, detail=str(finding.where)) for finding in findings[:3] if finding.action],
        sections=[section for section in sections if section is not None],
    )


def _operators(rows: Sequence[Replayed]) -> Section | None:
    shown = [row for row in rows if row.cause is None][:MAX_OPERATORS]
    if not shown:
        return None
    columns = [
        Column(title="verdict"),
        Column(title="own error", number=True),
        Column(title="units in the last place", number=True),
        Column(title="rounding", number=True),
        Column(title="reference's own", number=True),
        Column(title="inherited", number=True),
        Column(title=f"on {shown[0].on}", number=True),
        Column(title="step", number=True),
        Column(title="phase"),
        Column(title="module", code=True),
        Column(title="operator", code=True),
        Column(title="source", code=True),
        Column(title="note"),
    ]
    marked = [position for position, row in enumerate(shown) if row.verdict == "own fault"]
    table = Table(columns=columns, rows=[_cells(row) for row in shown], marked=marked)
    return Section(title="Operators, the worst first", blocks=[table])


def _cells(row: Replayed) -> list[Cell]:
    on = row.on_error.worst if row.on_error is not None else None
    return [
        row.verdict,
        row.own_error,
        row.own_ulps,
        row.tolerance,
        row.reference_error,
        row.inherited,
        on.error if on is not None else None,
        row.row.step,
        row.row.phase,
        row.row.module_path,
        row.row.name,
        row.row.source,
        row.note,
    ]


def _modules(rows: Sequence[Replayed]) -> Section | None:
    """Return the modules coloured by the greatest own error of an operator in them, in tolerances."""
    errors: dict[str, float | None] = {}
    for row in rows:
        worst = row.own.worst if row.own is not None else None
        if worst is not None and math.isfinite(worst.excess):
            path = row.row.module_path or "(root)"
            errors[path] = max(errors.get(path) or 0.0, worst.excess)
    if not any(errors.values()):
        return None
    heat = Heat(title="Greatest own error by module", unit="multiples of rounding", values=sorted(errors.items()))
    return Section(title="Own error by module", blocks=[heat])


def _left_out(rows: Sequence[Replayed]) -> Section | None:
    left_out = [row for row in rows if row.cause is not None]
    if not left_out:
        return None
    columns = [
        Column(title="why"),
        Column(title="operator", code=True),
        Column(title="module", code=True),
        Column(title="reason"),
    ]
    cells: list[list[Cell]] = [
        [row.cause, row.row.name, row.row.module_path, row.note] for row in left_out[:MAX_OPERATORS]
    ]
    return Section(title="Not replayed", blocks=[Table(columns=columns, rows=cells)], collapsed=True)
