"""Pages and findings as strict JSON: what a program reads instead of the page.

Numbers that JSON has no word for become the strings `NaN`, `Infinity` and `-Infinity`, because null
already means that there is no value.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from pathlib import PurePath
from typing import Any

from jumar import __version__
from jumar.base.findings import Finding
from jumar.show.blocks.page import (
    BarChart,
    Block,
    Diff,
    FindingList,
    Heat,
    KeyValues,
    LineChart,
    Listing,
    Page,
    Section,
    Table,
    Text,
)
from jumar.show.blocks.pictures import Excerpt, Histogram, Outline, Questions, Raster

SCHEMA_VERSION = 1

BLOCK_KINDS: dict[type[Any], str] = {
    Table: "table",
    LineChart: "line-chart",
    BarChart: "bar-chart",
    FindingList: "findings",
    Text: "text",
    Diff: "diff",
    KeyValues: "key-values",
    Listing: "listing",
    Heat: "heat",
    Outline: "outline",
    Histogram: "histogram",
    Raster: "raster",
    Questions: "questions",
    Excerpt: "excerpt",
}
"""A block's class to its `kind` in JSON, but for the blocks of a profile's page."""


def kind_of(block: Block) -> str:
    """Return the `kind` of a block in JSON. Raises KeyError for what is no block."""
    found = BLOCK_KINDS.get(type(block))
    if found is None:  # most commands never load these
        from jumar.show.blocks.profiles import PROFILE_KINDS

        found = PROFILE_KINDS[type(block)]
    return found


def findings_document(findings: Iterable[Finding], **extra: Any) -> dict[str, Any]:
    """Return the JSON document of `findings`; `extra` keys follow and are made plain in the same way.

    Raises TypeError when `extra` holds something that has no JSON form, ValueError when it uses the
    name of a key that the document already has.
    """
    document = {"schema_version": SCHEMA_VERSION, "jumar_version": __version__, "findings": plain(list(findings))}
    taken = document.keys() & extra.keys()
    if taken:
        raise ValueError(f"extra keys must not replace the document's own; got {', '.join(sorted(taken))}")
    return document | {key: plain(value) for key, value in extra.items()}


def page_json(page: Page) -> dict[str, Any]:
    """Return everything `page` says as JSON values: each block is an object with its `kind` first."""
    document = {"schema_version": SCHEMA_VERSION, "jumar_version": __version__}
    body = {field.name: plain(getattr(page, field.name)) for field in fields(page) if field.name != "sections"}
    return document | body | {"sections": [_section(section) for section in page.sections]}


def json_text(document: Any) -> str:
    """Return `document` (plain JSON values) as indented JSON text that ends in a newline. Raises ValueError on NaN."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """Return `value` as None, bool, int, float, str, list and dict. Raises TypeError for what has no such form."""
    # The commonest first: a table may have a million cells, and checks against abstract classes are slow.
    if value is None or isinstance(value, str | bool) or type(value) is int:
        return value
    if isinstance(value, float):
        return _number(float(value))
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Finding):
        return plain(value.to_json())
    return _plain_scalar(value) if isinstance(value, enum.Enum | Real | PurePath) else _plain_container(value)


def _plain_scalar(value: enum.Enum | Real | PurePath) -> Any:
    if isinstance(value, enum.Enum):
        return value.name.lower()
    if isinstance(value, Integral):
        return int(value)
    return _number(float(value)) if isinstance(value, Real) else str(value)


def _plain_container(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, AbstractSet):
        return [plain(item) for item in sorted(value)]
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [plain(item) for item in value]
    raise TypeError(f"a JSON document holds numbers, strings, lists and objects; got {type(value).__name__}")


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _section(section: Section) -> dict[str, Any]:
    return {
        "title": section.title,
        "collapsed": section.collapsed,
        "blocks": [_block(block) for block in section.blocks],
    }


def _block(block: Block) -> dict[str, Any]:
    return {"kind": kind_of(block), **plain(block)}
