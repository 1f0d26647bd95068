"""Findings and pages on the terminal: the answer first, about one screen, and what is not shown is counted.

In a pipe there are no colours and no line is wrapped; `NO_COLOR` is respected by rich.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from jumar.base.findings import Finding
from jumar.base.text import counted
from jumar.base.text.language import colon, translate
from jumar.show.blocks.localized import localized, localized_finding
from jumar.show.blocks.page import STATUS_WORDS, Action, FindingList, Page, Section, Status, Verdict
from jumar.show.terminal.briefs import brief, counts_line, group_lines, size_words
from jumar.show.terminal.length import whole_pages
from jumar.show.terminal.sheet import QUIET_STYLE, Sheet
from jumar.show.views.findings import group_by_code

SCREEN_LINES = 35
"""About one screen."""
_EVERY_ROW = 1_000_000_000
_ACTION_LINES = 12
_TAIL_LINES = 3
_BRIEFER = (5, 3, 2, 1)
"""Rows or rules of a block to try, until its section fits."""

MORE = "`--verbose` prints all of it, `--json` for programs."
_MARKS: dict[Status, tuple[str, str]] = {
    "fine": ("✓", "bold green"),
    "attention": ("!", "bold yellow"),
    "failed": ("✗", "bold red"),
}


def print_findings(
    findings: Sequence[Finding],
    *,
    console: Console | None = None,
    title: str = "",
    more: str = "`--verbose` prints all of it, `jumar rule CODE` explains a code.",
) -> None:
    """Print `findings` by rule, the most severe first, to `console` (stdout by default).

    `more` is the sentence that says how to see what did not fit.
    """
    findings = [localized_finding(finding) for finding in findings]
    title, more = translate(title), translate(more)
    sheet = Sheet(console)
    heading = f"{title}{colon()}" if title else ""
    sheet.add(sheet.hang(Text(), sheet.prose(heading + (counts_line(findings) or translate("nothing found")), "bold")))
    groups = group_by_code(findings)
    num_shown = 0
    for group in groups:
        lines = group_lines(group, sheet)
        if num_shown and len(sheet.lines) + len(lines) > SCREEN_LINES - _TAIL_LINES and not whole_pages.get():
            break
        sheet.add(lines)
        num_shown += 1
    hidden = [finding for group in groups[num_shown:] for finding in group]
    if hidden:
        rules = translate(counted(len(groups) - num_shown, "more rule"))
        text = f"{translate(f'Not shown: {counts_line(hidden)} ({rules}).')} {more}"
        sheet.add(sheet.hang(Text(), sheet.prose(text, QUIET_STYLE)))
    sheet.flush()


def print_page(page: Page, *, console: Console | None = None, more: str = MORE) -> None:
    """Print the verdict of `page`, what to do next, and as many sections as fit, to `console` (stdout by default).

    Collapsed sections are only named. `more` is the sentence that says how to see what did not fit. Where
    `whole_pages` is set, everything is printed.
    """
    page, more = localized(page), translate(more)
    sheet = Sheet(console)
    _add_verdict(sheet, page.verdict)
    _add_actions(sheet, page.actions)
    fitting = _whole_sections(sheet, page.sections) if whole_pages.get() else _fitting_sections(sheet, page.sections)
    for index in sorted(fitting):
        sheet.gap()
        sheet.add([sheet.plain(page.sections[index].title, "bold"), *fitting[index]])
    names = [_with_size(one) for index, one in enumerate(page.sections) if index not in fitting and one.blocks]
    if names:
        listed = ", ".join(names)
        sheet.gap()
        sheet.add(sheet.hang(Text(), sheet.prose(f"{translate(f'Not shown: {listed}.')} {more}", QUIET_STYLE)))
    sheet.flush()


def _add_verdict(sheet: Sheet, verdict: Verdict) -> None:
    mark, style = _MARKS[verdict.status]
    word = f"{translate(STATUS_WORDS[verdict.status])}{colon()}"
    lead = Text.assemble((sheet.plain(mark).plain, style), " ", (word, style))
    headline = sheet.hang(Text("  "), Text.assemble(lead, sheet.prose(verdict.headline, "bold")))
    sheet.add(headline)
    for detail in verdict.details:
        sheet.add(sheet.hang(Text("  "), sheet.prose(detail)))


def _add_actions(sheet: Sheet, actions: Sequence[Action]) -> None:
    if not actions:
        return
    sheet.gap()
    sheet.add([Text(translate("What to do next"), style="bold")])
    end = len(sheet.lines) + (_EVERY_ROW if whole_pages.get() else _ACTION_LINES)
    for number, action in enumerate(actions, start=1):
        lines = _action_lines(sheet, number, action)
        if number > 1 and len(sheet.lines) + len(lines) > end:
            sheet.add([sheet.plain(translate(f"  … and {len(actions) - number + 1} more"), QUIET_STYLE)])
            return
        sheet.add(lines)


def _action_lines(sheet: Sheet, number: int, action: Action) -> list[Text]:
    lead, indent = Text(f"{number:>3}. "), Text(" " * 5)
    lines = sheet.hang(lead, sheet.prose(action.title))
    if action.detail:
        lines += sheet.hang(indent, sheet.prose(action.detail, QUIET_STYLE))
    if action.command:
        # Each line as it is, so that it can be copied.
        lines += [Text.assemble(indent, sheet.plain(line, "cyan")) for line in action.command.splitlines()]
    return lines


def _whole_sections(sheet: Sheet, sections: Sequence[Section]) -> dict[int, list[Text]]:
    """Return the lines of every section with all of its rows, by index."""
    return {
        index: [line for block in section.blocks for line in brief(block, sheet, _EVERY_ROW)]
        for index, section in enumerate(sections)
        if section.blocks
    }


def _fitting_sections(sheet: Sheet, sections: Sequence[Section]) -> dict[int, list[Text]]:
    """Return the lines of those sections that fit, by index. Findings choose first: they are what to act on."""
    left = SCREEN_LINES - _TAIL_LINES - len(sheet.lines)
    fitting: dict[int, list[Text]] = {}
    for index in sorted(range(len(sections)), key=lambda index: not _has_findings(sections[index])):
        section = sections[index]
        if section.collapsed or not section.blocks:
            continue
        for most in _BRIEFER:
            lines = [line for block in section.blocks for line in brief(block, sheet, most)]
            if len(lines) + 2 <= left:  # two for the gap and the title
                fitting[index] = lines
                left -= len(lines) + 2
                break
    return fitting


def _has_findings(section: Section) -> bool:
    return any(isinstance(block, FindingList) and block.findings for block in section.blocks)


def _with_size(section: Section) -> str:
    size = size_words(section.blocks)
    return f"{section.title} ({size})" if size else section.title
