"""A page as one HTML file that opens offline: style, script and charts are inside it, and nothing is loaded.

Everything that comes from outside (paths, module names, messages) is escaped by Jinja; the content
security policy in the file forbids any request, should something slip through all the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

from jinja2 import BaseLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from jumar import __version__
from jumar.base.text.digits import cell_text
from jumar.base.text.language import chosen, translate
from jumar.show.blocks.documents import kind_of
from jumar.show.blocks.localized import localized
from jumar.show.blocks.page import (
    STATUS_WORDS,
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
from jumar.show.views.bars import bar_chart_view
from jumar.show.views.diffs import diff_view
from jumar.show.views.excerpt import excerpt_view
from jumar.show.views.findings import finding_list_view
from jumar.show.views.heat import heat_view
from jumar.show.views.histogram import histogram_view
from jumar.show.views.lines import line_chart_view
from jumar.show.views.outline import outline_view
from jumar.show.views.prose import paragraphs, spans
from jumar.show.views.raster import raster_view
from jumar.show.views.tables import table_view

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

_SCRIPT_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


_VIEWS: dict[type[Any], Callable[[Any, str], Any]] = {
    Table: table_view,
    LineChart: line_chart_view,
    BarChart: lambda chart, _: bar_chart_view(chart),
    FindingList: finding_list_view,
    Text: lambda text, _: paragraphs(text.text),
    Diff: lambda diff, _: diff_view(diff.text, diff.title),
    KeyValues: lambda pairs, _: pairs,
    Listing: lambda listing, _: listing,
    Heat: lambda heat, _: heat_view(heat),
    Outline: lambda outline, _: outline_view(outline),
    Histogram: lambda histogram, _: histogram_view(histogram),
    Raster: lambda raster, _: raster_view(raster),
    Questions: lambda questions, _: questions,
    Excerpt: lambda excerpt, _: excerpt_view(excerpt),
}
"""What prepares a block, given the id of its element."""


@dataclass(frozen=True, slots=True)
class SectionView:
    """A section as the template lays it out."""

    id: str
    title: str
    collapsed: bool
    blocks: list[tuple[str, Any]]


def render_html(page: Page) -> str:
    """Return `page` as one self-contained HTML document; the same page always gives the same text.

    Half of a surrogate pair (from a file name that is not UTF-8) is shown as `\\udc80`, so that the
    text can be written as UTF-8. Raises KeyError for a block that is none of the page model's.
    """
    page = localized(page)
    environment = _environment()
    css, js = _sources(environment, page)
    text = environment.get_template("page.html").render(
        page=page,
        policy=POLICY,
        version=__version__,
        status_word=translate(STATUS_WORDS[page.verdict.status]),
        language="zh-CN" if chosen() == "zh" else "en",
        sections=section_views(page.sections),
        css=css,
        js=js,
    )
    return text.strip().encode("utf-8", "backslashreplace").decode("utf-8") + "\n"


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return environment_with(PackageLoader("jumar.show.html"))


def environment_with(loader: BaseLoader) -> Environment:
    """Return an environment for templates that use the blocks' macros (`blocks.html`), which `loader` must find."""
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"spans": spans, "cell": cell_text, "count": "{:,}".format, "script_json": _script_json}
    environment.filters["t"] = translate
    return environment


def section_views(sections: Sequence[Section]) -> list[SectionView]:
    """Return sections as the macro `all` of `blocks.html` takes their blocks."""
    numbers = count(1)
    return [_section(index, section, numbers) for index, section in enumerate(sections, start=1)]


def block_views(blocks: Sequence[Block], start: int = 1) -> list[tuple[str, Any]]:
    """Return blocks as the macro `all` of `blocks.html` takes them; their ids count from `start`."""
    return [_view(block, number) for number, block in enumerate(blocks, start=start)]


def _sources(environment: Environment, page: Page) -> tuple[Markup, Markup]:
    """Return the style sheets and the scripts that the page's blocks need."""
    kinds = {type(block) for section in page.sections for block in section.blocks} - _VIEWS.keys()
    sheets, scripts = ["page.css"], ["page.js"]
    if kinds:
        from jumar.show.html import profiles

        sheets.append(profiles.SHEET)
        scripts += [name for kind, name in profiles.SCRIPTS.items() if kind in kinds]
    css, js = (Markup("\n").join(_source(environment, name) for name in names) for names in (sheets, scripts))
    return css, js


def _source(environment: Environment, name: str) -> Markup:
    """Return our own style sheet or script as it is: its braces must not be taken for Jinja's."""
    assert environment.loader is not None
    text, _, _ = environment.loader.get_source(environment, name)
    return Markup(text)


def _script_json(data: Any) -> Markup:
    """Return `data` as JSON that cannot end the script element it stands in."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(_SCRIPT_ESCAPES))


def _section(index: int, section: Section, numbers: count[int]) -> SectionView:
    blocks = [_view(block, next(numbers)) for block in section.blocks]
    return SectionView(f"section-{index}", section.title, section.collapsed, blocks)


def _view(block: Block, number: int) -> tuple[str, Any]:
    """Return the kind of `block`, which names its macro, and what the macro lays out."""
    kind = kind_of(block)
    prepare = _VIEWS.get(type(block))
    if prepare is None:  # of a profile's page: other commands do not load these
        from jumar.show.html.profiles import VIEWS

        prepare = VIEWS[type(block)]
    return kind, prepare(block, f"{kind}-{number}")
