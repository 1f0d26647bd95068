"""`index.html` of a conversion: what became of it, what is left, then every rule, file and change."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from jumar.base.findings import Finding, Severity
from jumar.base.text import counted
from jumar.base.text.digits import Cell
from jumar.convert.disk.patch import file_patch
from jumar.show.blocks.findings import finding_list
from jumar.show.blocks.page import Action, Block, Column, Diff, KeyValues, Page, Section, Table, Text, Verdict
from jumar.show.convert.result import Result, is_left, not_converted
from jumar.show.views.diffs import MOST_LINES
from jumar.show.views.findings import group_by_code

MOST_FINDINGS = 3000
"""Findings in the lists of one page; a page with more opens slowly. All of them are in findings.json."""
MOST_FILES = 3000
_MOST_ACTIONS = 3
_LEVELS = (Severity.ERROR, Severity.WARNING, Severity.ADVICE)


def convert_page(result: Result) -> Page:
    """Return the page of a conversion."""
    sections = [
        _left(result),
        _by_file(result),
        _by_rule(result),
        _lacking(result),
        _changes(result),
        _all(result),
        _unreadable(result),
        _how(result),
    ]
    return Page(
        title=f"{Path(result.job.request.source).resolve().name} for {_target(result)}",
        verdict=_verdict(result),
        actions=_actions(result),
        sections=[section for section in sections if section is not None],
    )


def _target(result: Result) -> str:
    return "the NPU" if result.job.options.target == "npu" else "any device"


def _verdict(result: Result) -> Verdict:
    conversion = result.conversion
    worst = max(result.num_left, default=Severity.INFO)
    left = ", ".join(_number(level, number) for level, number in result.num_left.items())
    changed = f"{len(conversion.changed)} of {counted(len(conversion.files), 'file')}"
    details = [f"{counted(len(conversion.others), 'other file')} copied as they are."] if conversion.others else []
    if conversion.failures:
        details.append(f"{counted(len(conversion.failures), 'file')} could not be read and stayed as they were.")
    if result.job.request.verify or result.job.request.verify_run is not None:
        details.append("The proof found something, listed below." if result.proof else "The proof found nothing wrong.")
    return Verdict(
        status="attention" if worst >= Severity.WARNING or conversion.failures else "fine",
        headline=f"{counted(conversion.num_edits, 'edit')} in {changed}; left for you: {left or 'nothing'}.",
        details=details,
    )


def _number(level: Severity, number: int) -> str:
    return f"{number:,} advice" if level is Severity.ADVICE else counted(number, level.label)


def _actions(result: Result) -> list[Action]:
    titles = {rule.code: rule.summary for rule in result.rules}
    found = []
    for group in group_by_code(result.left)[:_MOST_ACTIONS]:
        first = group[0]
        files = len({finding.where.path for finding in group})
        found.append(
            Action(
                title=titles.get(first.code, first.message) if len(group) > 1 else first.message,
                detail=f"{_number(first.severity, 1).split()[1].capitalize()}, "
                f"{counted(len(group), 'place')} in {counted(files, 'file')}. {first.action}",
                command=f"jumar rule {first.code}",
            )
        )
    source, folder = Path(result.job.request.source), result.folder
    if folder is not None and source.is_file() and source.suffix == ".py" and not result.job.request.in_place:
        found.append(Action(title="Run it on the NPU", command=f"jumar run {shlex.quote(str(folder / source.name))}"))
    return found


def _left(result: Result) -> Section:
    shown, note = _capped(sorted(result.left, key=lambda finding: -finding.severity))
    unread = "".join(f" {line}." for line in not_converted(result.conversion))
    blocks: list[Block] = [finding_list(shown, empty=f"Nothing is left to do by hand.{unread}"), *note]
    return Section(title="Left for you", blocks=blocks)


def _capped(findings: Sequence[Finding]) -> tuple[Sequence[Finding], list[Block]]:
    if len(findings) <= MOST_FINDINGS:
        return findings, []
    note = f"{MOST_FINDINGS:,} of {len(findings):,} are shown; all of them are in `findings.json`."
    return findings[:MOST_FINDINGS], [Text(text=note)]


def _lacking(result: Result) -> Section | None:
    """Return the table of what the vendor's lists say of the other APIs that the sources call."""
    if not result.lacking:
        return None
    places: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for row in result.lacking:
        places[row.status, row.name, row.reason].append(f"{row.file}:{row.line}")
    rows: list[Sequence[Cell]] = [
        [name, status, len(found), ", ".join(found[:3]) + (", …" if len(found) > 3 else ""), reason]
        for (status, name, reason), found in sorted(places.items(), key=lambda item: _STATUSES.index(item[0][0]))
    ]
    columns = [
        Column(title="API", code=True),
        Column(title="status"),
        Column(title="places", number=True),
        Column(title="where", code=True),
        Column(title="why"),
    ]
    note = Text(text="Answers for other SoCs: `jumar assess`. Every place is in `unsupported_op.xlsx`.")
    return Section(title="What the NPU lacks", blocks=[Table(columns=columns, rows=rows), note])


_STATUSES = ("unsupported", "fallback", "unverified")


def _changes(result: Result) -> Section | None:
    """Return the whole patch, as far as a page shows it."""
    lines: list[str] = []
    shown = 0
    changed = result.conversion.changed
    for outcome in changed:
        text = file_patch(outcome.path, outcome.before, outcome.after).decode("utf-8", "replace")
        if lines and len(lines) + text.count("\n") > MOST_LINES:
            break
        lines += text.splitlines(keepends=True)
        shown += 1
    if not changed:
        return None
    blocks: list[Block] = [Diff(text="".join(lines), title=f"Changes in {counted(shown, 'file')}")]
    if shown < len(changed):
        rest = counted(len(changed) - shown, "more changed file")
        blocks.append(Text(text=f"{rest}: see `changes.patch`, or the table of files above."))
    return Section(title="Before and after", blocks=blocks)


def _by_rule(result: Result) -> Section:
    rules = {rule.code: rule for rule in result.rules}
    groups: dict[str, list[Finding]] = defaultdict(list)
    for finding in result.findings:
        groups[finding.code].append(finding)
    rows: list[Sequence[Cell]] = []
    for code, group in sorted(groups.items()):
        rule = rules.get(code)
        left = [finding for finding in group if is_left(finding)]
        worst = max((finding.severity for finding in left), default=None)
        rows.append(
            [
                code,
                rule.name if rule else "",
                result.num_made.get(code, 0),
                len(left),
                worst.label if worst is not None else "",
                len({finding.where.path for finding in group}),
                rule.summary if rule else "",
            ]
        )
    columns = [
        Column(title="rule", code=True),
        Column(title="name", code=True),
        Column(title="converted", number=True, bar=True),
        Column(title="left", number=True, bar=True),
        Column(title="worst"),
        Column(title="files", number=True),
        Column(title="what it reports"),
    ]
    return Section(title="By rule", blocks=[Table(columns=columns, rows=rows)])


def _by_file(result: Result) -> Section:
    files = [outcome for outcome in result.conversion.files if outcome.findings or outcome.changed]
    files.sort(key=lambda outcome: (-_weight(outcome.findings), -outcome.num_edits, outcome.path))
    rows: list[Sequence[Cell]] = []
    for outcome in files[:MOST_FILES]:
        counts = Counter(finding.severity for finding in outcome.findings if is_left(finding))
        rows.append([outcome.path, outcome.num_edits, *(counts[level] for level in _LEVELS)])
    columns = [
        Column(title="file", code=True),
        Column(title="edits", number=True, bar=True),
        Column(title="errors", number=True),
        Column(title="warnings", number=True),
        Column(title="advice", number=True),
    ]
    blocks: list[Block] = [Table(columns=columns, rows=rows)]
    silent = len(result.conversion.files) - len(files)
    notes = [f"{counted(silent, 'file')} without anything of CUDA."] if silent else []
    if len(files) > MOST_FILES:
        notes.append(f"{len(files) - MOST_FILES:,} more are in `findings.json`.")
    return Section(title="By file", blocks=[*blocks, *(Text(text=note) for note in notes)])


def _weight(findings: Iterable[Finding]) -> int:
    """Rank a file: one error outweighs any number of warnings that a file may have."""
    return sum(10 ** (2 * _LEVELS[::-1].index(item.severity)) for item in findings if is_left(item))


def _all(result: Result) -> Section | None:
    shown, note = _capped(result.findings)
    if not shown:
        return None
    rows: list[Sequence[Cell]] = [
        [str(finding.where), finding.code, _state(finding), finding.message, finding.action] for finding in shown
    ]
    columns = [
        Column(title="where", code=True),
        Column(title="rule", code=True),
        Column(title="state"),
        Column(title="what"),
        Column(title="what to do"),
    ]
    table = Table(columns=columns, rows=rows, title="Every finding: what was converted, noted and left")
    return Section(title="Every finding", blocks=[table, *note], collapsed=True)


def _state(finding: Finding) -> str:
    if finding.evidence.get("applied"):
        return "converted"
    return "note" if finding.severity is Severity.INFO else finding.severity.label


def _unreadable(result: Result) -> Section | None:
    failures = result.conversion.failures
    if not failures:
        return None
    rows = [[failure.path, failure.error] for failure in failures[:MOST_FILES]]
    table = Table(columns=[Column(title="file", code=True), Column(title="why")], rows=rows)
    return Section(title="Could not be read", blocks=[table])


def _how(result: Result) -> Section:
    items = [*result.facts.items(), ("time", f"{result.seconds:.1f} s")]
    return Section(title="How it was converted", blocks=[KeyValues(items=items)])
