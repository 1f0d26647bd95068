"""Findings in groups of one rule, most severe first, with the evidence as names and values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jumar.base.findings import Finding, Json, Severity
from jumar.base.text.digits import Cell, cell_text, number_text
from jumar.base.text.language import translate
from jumar.show.blocks.documents import plain
from jumar.show.blocks.page import Column, FindingList, Table
from jumar.show.views.diffs import DiffLine, edit_lines
from jumar.show.views.tables import TableView, table_view

FULL = 20
"""Findings of one rule that are shown in full; further ones are rows of a table."""
_OPEN_FINDINGS = 12
"""So many findings are all open at once; of more, only the errors are."""
_MOST_ITEMS = 10
"""Rows of a table within the evidence."""

_EVIDENCE_DIGITS = 7
"""Evidence is read closely, and a float32 has about seven digits."""

_UNITS = {"us": "µs", "ms": "ms", "s": "s", "bytes": "bytes", "percent": "%"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One number or text behind a finding, or a small table (`columns` and `rows`)."""

    name: str
    text: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[tuple[str, bool]]] = ()
    """Cells: the text, and whether it is a number."""
    num_hidden: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingView:
    """One finding, with what its group does not already say."""

    finding: Finding
    place: str
    run_place: str
    evidence: list[Evidence]
    why: str
    action: str
    edit_lines: list[DiffLine]
    says_message: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """The findings of one rule; `why` and `action` are set when all of them share it."""

    code: str
    title: str
    severity: Severity
    num_findings: int
    why: str
    action: str
    findings: list[FindingView]
    rest: TableView | None
    open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingListView:
    """What the template lays out."""

    groups: list[GroupView]
    counts: list[tuple[Severity, int]]
    empty: str


def finding_list_view(block: FindingList, list_id: str) -> FindingListView:
    """Prepare `block` under the element id `list_id`."""
    groups = group_by_code(block.findings)
    few = len(block.findings) <= _OPEN_FINDINGS
    return FindingListView(
        groups=[_group(group, f"{list_id}-{group[0].code}", block.titles, few) for group in groups],
        counts=count_severities(block.findings),
        empty=block.empty,
    )


def group_by_code(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return the findings of each rule together, the most severe rule first.

    Otherwise the given order is kept, of rules and within a rule: rooms order their findings by benefit.
    """
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.code, []).append(finding)
    for group in groups.values():
        group.sort(key=lambda finding: -finding.severity)
    return sorted(groups.values(), key=lambda group: -group[0].severity)


def count_severities(findings: Iterable[Finding]) -> list[tuple[Severity, int]]:
    """Return (severity, number of findings), most severe first, without those that do not occur."""
    levels = [finding.severity for finding in findings]
    return [(level, levels.count(level)) for level in sorted(Severity, reverse=True) if level in levels]


def _group(findings: list[Finding], group_id: str, titles: Mapping[str, str], few: bool) -> GroupView:
    first = findings[0]
    several = len(findings) > 1
    why = first.why if several and all(finding.why == first.why for finding in findings) else ""
    action = first.action if several and all(finding.action == first.action for finding in findings) else ""
    title = titles.get(first.code, "") or ("" if several else first.message)
    return GroupView(
        code=first.code,
        title=title,
        severity=first.severity,
        num_findings=len(findings),
        why=why,
        action=action,
        findings=[_view(finding, why, action, says_message=title != first.message) for finding in findings[:FULL]],
        rest=table_view(_rest(findings[FULL:]), f"{group_id}-rest") if len(findings) > FULL else None,
        open=few or (first.severity >= Severity.ERROR and len(findings) <= _OPEN_FINDINGS),
    )


def _view(finding: Finding, group_why: str, group_action: str, *, says_message: bool) -> FindingView:
    where = finding.where
    place = where.path or ""
    if place and where.line is not None:
        place += f":{where.line}" + (f":{where.column}" if where.column is not None else "")
    counts = [f"{name} {value}" for name, value in (("step", where.step), ("rank", where.rank)) if value is not None]
    run = [part for part in (where.module_path, where.operator, where.phase) if part] + counts
    return FindingView(
        finding=finding,
        place=place,
        run_place=" · ".join(run),
        evidence=[_evidence(name, value) for name, value in finding.evidence.items()],
        why="" if group_why else finding.why,
        action="" if group_action else finding.action,
        edit_lines=edit_lines(finding.edit) if finding.edit else [],
        says_message=says_message,
    )


def _rest(findings: Sequence[Finding]) -> Table:
    return Table(
        title="Further findings of this rule",
        columns=[Column(title="Where", code=True), Column(title="Severity"), Column(title="Message")],
        rows=[(str(finding.where), finding.severity.label, finding.message) for finding in findings],
    )


def _evidence(name: str, value: Json) -> Evidence:
    label = translate(readable_name(name))
    if _is_table(value):
        items: list[dict[str, Any]] = value  # type: ignore[assignment]  # _is_table has looked
        columns = list(dict.fromkeys(key for item in items for key in item))
        rows = [[(_text(item.get(key)), _is_number(item.get(key))) for key in columns] for item in items[:_MOST_ITEMS]]
        return Evidence(
            name=label,
            columns=[translate(readable_name(column)) for column in columns],
            rows=rows,
            num_hidden=max(0, len(items) - _MOST_ITEMS),
        )
    return Evidence(name=label, text=_text(value))


def readable_name(name: str) -> str:
    """Return a field's name as words with its unit apart: `duration_us` is `duration (µs)`."""
    words = name.split("_")
    unit = _UNITS.get(words[-1]) if len(words) > 1 else None
    return f"{' '.join(words[:-1])} ({unit})" if unit else " ".join(words)


def _is_table(value: Json) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(isinstance(item, dict) for item in value)


def _text(value: Json) -> str:
    if isinstance(value, list) and not any(isinstance(item, list | dict) for item in value):
        return ", ".join(_text(item) for item in value) or translate("none")
    if isinstance(value, dict):
        return ", ".join(f"{readable_name(name)} {_text(item) or '–'}" for name, item in value.items()) or "none"
    if isinstance(value, list):
        return json.dumps(plain(value), ensure_ascii=False)
    if isinstance(value, float):
        return number_text(value, _EVIDENCE_DIGITS)
    cell: Cell = value
    return cell_text(cell)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
