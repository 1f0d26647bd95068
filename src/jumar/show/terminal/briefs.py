"""A page's blocks in a few lines each, for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich.cells import cell_len
from rich.text import Text

from jumar.base.findings import Finding, Severity
from jumar.base.text import counted, listing
from jumar.base.text.digits import cell_text, number_text
from jumar.base.text.language import translate
from jumar.show.blocks.documents import kind_of
from jumar.show.blocks.page import BarChart, Block, Diff, FindingList, Heat, KeyValues, LineChart, Listing, Table
from jumar.show.blocks.page import Text as TextBlock
from jumar.show.blocks.pictures import Excerpt, Histogram, Outline, Questions, Raster
from jumar.show.terminal.sheet import QUIET_STYLE, Sheet
from jumar.show.views.diffs import diff_view
from jumar.show.views.findings import count_severities, group_by_code
from jumar.show.views.lines import summary

SEVERITY_STYLES = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "bold yellow",
    Severity.ADVICE: "bold blue",
    Severity.INFO: "dim",
}
_MOST_PLACES = 3


def brief(block: Block, sheet: Sheet, most: int) -> list[Text]:
    """Return a few lines that stand for `block`: at most `most` of its rows or rules, and how many more there are.

    Raises KeyError for a block that is none of the page model's.
    """
    found = _BRIEFS.get(type(block))
    return found(block, sheet, most) if found else _drawn(sheet, block, kind_of(block))


def counts_line(findings: Sequence[Finding]) -> str:
    """Return `1 error, 2 warnings, 4 advice`."""
    return ", ".join(
        translate(f"{number} {level.label}{'s' if number != 1 and level >= Severity.WARNING else ''}")
        for level, number in count_severities(findings)
    )


def group_lines(findings: Sequence[Finding], sheet: Sheet, title: str = "") -> list[Text]:
    """Return the findings of one rule: severity, code, what it is, where, and what to do."""
    first = findings[0]
    style = SEVERITY_STYLES[first.severity]
    lead = Text.assemble("  ", (f"{first.severity.label:<8}", style), (f"{first.code}  ", "bold"))
    indent = Text(" " * len(lead.plain))
    lines = sheet.hang(lead, sheet.prose(title or first.message))
    places = list(dict.fromkeys(str(finding.where) for finding in findings if str(finding.where)))
    if places:
        lines += sheet.hang(indent, sheet.plain(listing(places, _MOST_PLACES), QUIET_STYLE))
    if first.action:
        lines += sheet.hang(indent, sheet.prose(f"→ {first.action}"))
    return lines


def _findings(block: FindingList, sheet: Sheet, most: int) -> list[Text]:
    if not block.findings:
        return sheet.hang(Text("  "), sheet.prose(block.empty))
    groups = group_by_code(block.findings)
    lines = sheet.hang(Text("  "), sheet.plain(counts_line(block.findings)))
    for group in groups[:most]:
        lines += group_lines(group, sheet, block.titles.get(group[0].code, "") if len(group) > 1 else "")
    hidden = [finding for group in groups[most:] for finding in group]
    if hidden:
        lines += [_more(sheet, f"and {counts_line(hidden)} ({counted(len(groups) - most, 'more rule')})")]
    return lines


def _table(block: Table, sheet: Sheet, most: int) -> list[Text]:
    if not block.rows:
        return [*_title(sheet, block.title), _more(sheet, "no rows")]
    chosen = list(dict.fromkeys([*block.marked, *range(len(block.rows))]))[:most]
    titles = [f"{column.title} ({column.unit})" if column.unit else column.title for column in block.columns]
    digits = [column.digits for column in block.columns]
    rows = [[cell_text(*cell) for cell in zip(block.rows[index], digits, strict=True)] for index in sorted(chosen)]
    lines = sheet.table(titles, rows, [column.number for column in block.columns])
    return _listed(sheet, block.title, lines, len(block.rows) - len(rows), "more rows")


def _line_chart(block: LineChart, sheet: Sheet, most: int) -> list[Text]:
    width = max((len(series.name) for series in block.series), default=0)
    lines = [sheet.plain(f"    {series.name:<{width}}  {summary(series)}") for series in block.series[:most]]
    return _listed(sheet, block.title, lines, len(block.series) - most)


def _bar_chart(block: BarChart, sheet: Sheet, most: int) -> list[Text]:
    return _values(sheet, block.title, block.unit, block.bars, most)


def _values(sheet: Sheet, title: str, unit: str, values: Sequence[tuple[str, float]], most: int) -> list[Text]:
    rows = [[name, number_text(value)] for name, value in values[:most]]
    lines = sheet.table(["", unit], rows, [False, True]) if rows else []
    return _listed(sheet, title, lines, len(values) - len(rows))


def _text(block: TextBlock, sheet: Sheet, most: int) -> list[Text]:
    lines = sheet.hang(Text("  "), sheet.prose(" ".join(block.text.split())))
    return lines if len(lines) <= most else [*lines[:most], _more(sheet, "")]


def _diff(block: Diff, sheet: Sheet, _most: int) -> list[Text]:
    files = diff_view(block.text, "").files
    added, deleted = sum(file.num_added for file in files), sum(file.num_deleted for file in files)
    said = f"{counted(len(files), 'file')}, {added:,} lines added, {deleted:,} deleted"
    return [sheet.plain(f"  {block.title or translate('Changes')}: {translate(said)}")]


def _listing(block: Listing, sheet: Sheet, most: int) -> list[Text]:
    """Return the last lines: a traceback ends with what went wrong."""
    lines = block.text.rstrip().splitlines()
    hidden = len(lines) - max(most, 1)
    shown = [sheet.plain(f"  {line}") for line in lines[max(hidden, 0) :]]
    head = [sheet.plain(f"  {block.title}", QUIET_STYLE)] if block.title else []
    return [
        *head,
        *([sheet.plain(f"  … {translate(f'{hidden:,} lines before')}", QUIET_STYLE)] if hidden > 0 else []),
        *shown,
    ]


def _key_values(block: KeyValues, sheet: Sheet, most: int) -> list[Text]:
    width = max((cell_len(name) for name, _ in block.items), default=0)
    lines = [
        sheet.plain(f"  {name}{' ' * (width - cell_len(name))}  {cell_text(value)}")
        for name, value in block.items[: most * 2]
    ]
    return _listed(sheet, block.title, lines, len(block.items) - most * 2)


def _heat(block: Heat, sheet: Sheet, most: int) -> list[Text]:
    values = [(name or "(model)", value) for name, value in block.values if value is not None]
    # NaN and Inf first: they are worse than any number.
    values.sort(key=lambda item: -item[1] if abs(item[1]) < float("inf") else float("-inf"))
    return _values(sheet, block.title, block.unit, values, most)


def _outline(block: Outline, sheet: Sheet, most: int) -> list[Text]:
    values = [(entry.name, entry.value) for entry in block.entries]
    return _heat(Heat(title=block.title, unit=block.unit, values=values, log_scale=block.log_scale), sheet, most)


def _histogram(block: Histogram, sheet: Sheet, _most: int) -> list[Text]:
    edges = f"{number_text(block.edges[0])} to {number_text(block.edges[-1])}" if block.edges else "no values"
    return [sheet.plain(f"  {block.title}: {edges}, {counted(max(len(block.edges) - 1, 0), 'bin')}")]


def _raster(block: Raster, sheet: Sheet, _most: int) -> list[Text]:
    wide = len(block.values[0]) if block.values else 0
    return [sheet.plain(f"  {block.title}: {len(block.values)}×{wide} picture, in the HTML page")]


def _questions(block: Questions, sheet: Sheet, most: int) -> list[Text]:
    lines = []
    shown = [one for one in block.questions if one.decisive] or list(block.questions)
    for one in shown[:most]:
        lines += sheet.hang(Text("  "), sheet.prose(f"{one.question} {one.answer}"))
    return lines


def _excerpt(block: Excerpt, sheet: Sheet, _most: int) -> list[Text]:
    numbered = dict(enumerate(block.lines, start=block.first_line))
    return [
        sheet.plain(f"  {block.path}:{line}  {numbered[line].strip()}") for line in block.marked if line in numbered
    ]


_BRIEFS: dict[type[Any], Callable[[Any, Sheet, int], list[Text]]] = {
    FindingList: _findings,
    Table: _table,
    LineChart: _line_chart,
    BarChart: _bar_chart,
    TextBlock: _text,
    Diff: _diff,
    KeyValues: _key_values,
    Listing: _listing,
    Heat: _heat,
    Outline: _outline,
    Histogram: _histogram,
    Raster: _raster,
    Questions: _questions,
    Excerpt: _excerpt,
}


def _drawn(sheet: Sheet, block: Any, kind: str) -> list[Text]:
    """Return the title of a picture that only a page draws."""
    return [sheet.plain(f"  {block.title}: {kind.replace('-', ' ')}, drawn on the page", QUIET_STYLE)]


def size_words(blocks: Iterable[Block]) -> str:
    """Return how much there is in blocks that are not shown: `200 rows`, `15 findings`; empty when it is little."""
    rows = findings = 0
    for block in blocks:
        rows += len(block.rows) if isinstance(block, Table) else 0
        findings += len(block.findings) if isinstance(block, FindingList) else 0
    words = [translate(counted(number, noun)) for number, noun in ((findings, "finding"), (rows, "row")) if number]
    return ", ".join(words)


def _listed(sheet: Sheet, title: str, lines: list[Text], num_hidden: int, noun: str = "more") -> list[Text]:
    """Return the title, the lines, and how many are hidden."""
    return [*_title(sheet, title), *lines, *([_more(sheet, f"and {num_hidden:,} {noun}")] if num_hidden > 0 else [])]


def _title(sheet: Sheet, title: str) -> list[Text]:
    return [sheet.plain(f"  {title}")] if title else []


def _more(sheet: Sheet, text: str) -> Text:
    return sheet.plain(f"  … {translate(text)}", QUIET_STYLE)
