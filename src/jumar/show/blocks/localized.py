"""`localized`: a page in the user's language. Names, code, commands and numbers stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    LineChart,
    Page,
    Section,
    Table,
    Text,
    Verdict,
)
from jumar.show.blocks.pictures import Questions

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
    known = _OWN.get(type(block))
    return replace(block, **_texts(block, _TITLES)) if known is None else known(block)  # type: ignore[arg-type]


def _findings(block: FindingList) -> FindingList:
    titles = {code: translate(title) for code, title in block.titles.items()}
    findings = [localized_finding(one) for one in block.findings]
    return replace(block, findings=findings, empty=translate(block.empty), titles=titles)


def _table(block: Table) -> Table:
    rows = [[_cell(cell, column) for cell, column in zip(row, block.columns, strict=True)] for row in block.rows]
    columns = [_column(one) for one in block.columns]
    return replace(block, title=translate(block.title), columns=columns, rows=rows)


def _key_values(block: KeyValues) -> KeyValues:
    items = [(translate(name), _value(value)) for name, value in block.items]
    return replace(block, title=translate(block.title), items=items)


def _text(block: Text) -> Text:
    return replace(block, text="\n\n".join(_all(block.text.split("\n\n"))))


def _questions(block: Questions) -> Questions:
    asked = [replace(one, **_texts(one, ("question", "answer", "evidence"))) for one in block.questions]  # type: ignore[arg-type]
    return replace(block, questions=asked, **_texts(block, ("title",)))


def _line_chart(block: LineChart) -> LineChart:
    series = [replace(one, name=translate(one.name)) for one in block.series]
    return replace(block, series=series, **_texts(block, _TITLES))  # type: ignore[arg-type]


_OWN: dict[type[Any], Callable[[Any], Any]] = {
    FindingList: _findings,
    Table: _table,
    KeyValues: _key_values,
    Text: _text,
    Questions: _questions,
    LineChart: _line_chart,
}


def _texts(block: Any, names: Sequence[str]) -> dict[str, str]:
    """Return those of the fields that are texts, as they are shown."""
    values = {name: getattr(block, name, None) for name in names}
    return {name: translate(text) for name, text in values.items() if isinstance(text, str)}


def _cell(cell: Cell, column: Column) -> Cell:
    return cell if column.code else _value(cell)


def _value(value: Cell) -> Cell:
    """Return a value as it is shown: sentences and phrases; one word may be a name."""
    return translate(value) if isinstance(value, str) and " " in value else value


def _column(column: Column) -> Column:
    return replace(column, title=translate(column.title), unit=translate(column.unit))


def _all(texts: Sequence[str]) -> list[str]:
    return [translate(text) for text in texts]
