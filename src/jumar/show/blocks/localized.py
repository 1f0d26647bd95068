"""`localized`: a page in the user's language. Names, code, commands and numbers stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jumar.base.findings import Finding
from jumar.base.text.digits import Cell
from jumar.base.text.language import chosen, translate
from jumar.show.blocks.page import (
    Action,
    Block,
    Column,
    FindingList,
    KeyValues,
    Page,
    Section,
    Table,
    Text,
    Verdict,
)

_TITLES = ("title", "x_label", "y_label", "note", "rows", "columns")
"""Fields of other blocks that people read as sentences or labels."""


def localized(page: Page) -> Page:
    """Return the page as it is shown: the same one where messages are English."""
    if chosen() == "en":
        return page
    return replace(
        page,
        title=translate(page.title),
        verdict=_verdict(page.verdict),
        actions=[_action(action) for action in page.actions],
        sections=[localized_section(section) for section in page.sections],
        footer=translate(page.footer),
    )


def localized_section(section: Section) -> Section:
    """Return a section as it is shown."""
    return replace(section, title=translate(section.title), blocks=[_block(block) for block in section.blocks])


def localized_finding(finding: Finding) -> Finding:
    """Return a finding as it is shown: message, why and action; the rest is for programs."""
    return replace(
        finding,
        message=translate(finding.message),
        why=translate(finding.why),
        action=translate(finding.action),
    )


def _verdict(verdict: Verdict) -> Verdict:
    return replace(verdict, headline=translate(verdict.headline), details=_all(verdict.details))


def _action(action: Action) -> Action:
    return replace(action, title=translate(action.title), detail=translate(action.detail))


def _block(block: Block) -> Any:
    if isinstance(block, FindingList):
        titles = {code: translate(title) for code, title in block.titles.items()}
        findings = [localized_finding(one) for one in block.findings]
        return replace(block, findings=findings, empty=translate(block.empty), titles=titles)
    if isinstance(block, Table):
        rows = [[_cell(cell, column) for cell, column in zip(row, block.columns, strict=True)] for row in block.rows]
        columns = [_column(one) for one in block.columns]
        return replace(block, title=translate(block.title), columns=columns, rows=rows)
    if isinstance(block, KeyValues):
        items = [(translate(name), _value(value)) for name, value in block.items]
        return replace(block, title=translate(block.title), items=items)
    if isinstance(block, Text):
        return replace(block, text="\n\n".join(_all(block.text.split("\n\n"))))
    labels = {name: getattr(block, name, None) for name in _TITLES}
    return replace(block, **{name: translate(text) for name, text in labels.items() if isinstance(text, str)})  # type: ignore[arg-type]


def _cell(cell: Cell, column: Column) -> Cell:
    return cell if column.code else _value(cell)


def _value(value: Cell) -> Cell:
    """Return a value as it is shown: sentences and phrases; one word may be a name."""
    return translate(value) if isinstance(value, str) and " " in value else value


def _column(column: Column) -> Column:
    return replace(column, title=translate(column.title), unit=translate(column.unit))


def _all(texts: Sequence[str]) -> list[str]:
    return [translate(text) for text in texts]
