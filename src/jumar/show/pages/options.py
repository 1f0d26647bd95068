"""The page of the options that TensorFlow scripts set for the NPU."""

from __future__ import annotations

from jumar.base.findings import Finding, Severity
from jumar.base.text import counted
from jumar.show.blocks.findings import finding_list
from jumar.show.blocks.page import (
    Action,
    Block,
    Column,
    Listing,
    Page,
    Section,
    Status,
    Table,
    Text,
    Verdict,
)
from jumar.tfadapter.checks.report import Agreement, OptionReport
from jumar.tfadapter.checks.rules.tuned_otherwise import shown_values
from jumar.tfadapter.checks.subject import text_of
from jumar.tfadapter.options import UNKNOWN, Setting, must_agree, options_of

MAX_ACTIONS = 8
WIDEST = 60
"""Characters of a value."""
_EFFECTS = {"runs": "does what it says", "checked": "checked", "none": "none"}


def options_page(report: OptionReport) -> Page:
    """Return the page of a report."""
    worse = [one for one in report.findings if one.severity > Severity.INFO]
    sections = [
        Section(title="Findings", blocks=[finding_list(report.findings, empty="None.")]),
        _agreement(report.agreement),
        _untold(report),
        _settings(report),
    ]
    return Page(
        title=f"Options in {', '.join(map(str, report.paths))}",
        verdict=_verdict(report, worse),
        actions=[
            Action(title=one.action, detail=f"{one.where}: {one.message}", command=f"jumar rule {one.code}")
            for one in worse[:MAX_ACTIONS]
        ],
        sections=[section for section in sections if section is not None],
        footer="The table of options, with the source of each: jumar docs tensorflow-options.",
    )


def _verdict(report: OptionReport, worse: list[Finding]) -> Verdict:
    files, options = counted(len(report.scripts), "file"), counted(len(report.settings), "option")
    coverage = f"Read {files} without running them: {options}, {report.num_known} of them in the table"
    gaps = []
    if report.untold:
        of_flags = f" (of {report.num_by_default} the flag's default was checked)" if report.num_by_default else ""
        gaps.append(f"{counted(len(report.untold), 'value')} not told by the source{of_flags}")
    if report.unread:
        gaps.append(f"{counted(len(report.unread), 'place')} with names not told by the source")
    if report.unparsed:
        gaps.append(f"{counted(len(report.unparsed), 'file')} not read")
    details = [coverage + "." + (f" Not checked: {'; '.join(gaps)}." if gaps else "")]
    if report.soc is None:
        details.append("No --soc was given: what depends on the chip is not checked.")
    if not report.settings:
        return Verdict(status="attention", headline=f"No option for the NPU is set in {files}.", details=details)
    if worse:
        others = f", and {len(worse) - 1} more" if len(worse) > 1 else ""
        return Verdict(status="attention", headline=f"{worse[0].message.removesuffix('.')}{others}.", details=details)
    status: Status = "attention" if gaps else "fine"
    but = " in what could be read" if gaps else ""
    return Verdict(status=status, headline=f"Nothing wrong was found{but} in {options} of {files}.", details=details)


def _agreement(found: Agreement | None) -> Section | None:
    """Return the options of document 000 that the two sides have apart, how many were compared, and what to write."""
    if found is None:
        return None
    columns = [Column(title="option", code=True), Column(title="changes"), Column(title="tuning", code=True),
               Column(title="use", code=True)]  # fmt: skip
    rows: list[list[str | float | None]] = [
        [one.name, one.changes, _short(shown_values(one.tuning)), _short(shown_values(one.training))]
        for one in found.apart
    ]
    unset = len(must_agree()) - len({*found.compared, *found.untold} & set(must_agree()))
    counts = [f"{counted(len(found.compared), 'option')} that must agree compared, {len(found.apart)} apart"]
    counts += [f"not told by the source: {', '.join(found.untold)}"] if found.untold else []
    counts.append(f"{unset} of the document's {len(must_agree())} set on neither side")
    blocks: list[Block] = [Text(text="; ".join(counts) + ".")]
    if rows:
        blocks.append(Table(columns=columns, rows=rows))
    if found.corrected:
        title = "Corrected command of the use" if found.is_use else "Corrected command of the tuning; tune again"
        blocks.append(Listing(title=title, text="\n".join(found.corrected)))
    return Section(title="Options that must agree", blocks=blocks)


def _untold(report: OptionReport) -> Section | None:
    rows: list[list[str | float | None]] = [
        [_where(one), f"value of {one.name}: {_short(one.text)}" if one.text else f"value of {one.name}"]
        for one in report.untold
    ]
    rows += [[f"{path}:{line}", what] for path, line, what in report.unread]
    rows += [["", sentence] for sentence in report.unparsed]
    if not rows:
        return None
    columns = [Column(title="where", code=True), Column(title="what the source does not tell")]
    return Section(title="Not checked", blocks=[Table(columns=columns, rows=rows)])


def _settings(report: OptionReport) -> Section | None:
    if not report.settings:
        return None
    columns = [Column(title="where", code=True), Column(title="style"), Column(title="option", code=True),
               Column(title="value", code=True), Column(title="on the CPU"), Column(title="what it is")]  # fmt: skip
    rows: list[list[str | float | None]] = []
    for one in report.settings:
        option = options_of(one.style).get(one.name)
        value = (one.text or "…") if one.value is UNKNOWN else text_of(one.value)
        effect, meaning = (_EFFECTS[option.effect], option.meaning) if option else ("", "not in the table")
        rows.append([_where(one), one.style, one.name, _short(value), effect, meaning])
    return Section(title="Options", blocks=[Table(columns=columns, rows=rows)])


def _where(setting: Setting) -> str:
    return f"{setting.path}:{setting.line}" if setting.line is not None else str(setting.path)


def _short(text: str) -> str:
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"
