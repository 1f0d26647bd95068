"""`html_of`: a result as a notebook shows it: its page, in a frame of its own."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any

from jumar.show.blocks.page import Page

HEIGHT_PX = 520


def html_of(result: Any) -> str:
    """Return the HTML of a result's page in an `iframe`; it needs no network.

    Raises KeyError for a class that has no page.
    """
    from jumar.show.html.render import render_html

    page = render_html(_PAGES[type(result).__name__](result))
    frame = f'<iframe style="width:100%;height:{HEIGHT_PX}px;border:0" srcdoc="{html.escape(page)}"></iframe>'
    return f"<div>{frame}</div>"


def _advice(result: Any) -> Page:
    from jumar.show.pages.advise import advise_page

    return advise_page(result)


def _comparison(result: Any) -> Page:
    from jumar.show.compare.page import compare_page

    return compare_page(result)


def _environment(result: Any) -> Page:
    from jumar.show.pages.doctor.machine import environment_page

    return environment_page(result)


def _logs(result: Any) -> Page:
    from jumar.show.pages.doctor.logs import logs_page

    return logs_page(result)


def _operators(result: Any) -> Page:
    from jumar.show.pages.doctor.opinfo import opinfo_page

    return opinfo_page(result)


def _overflow(result: Any) -> Page:
    from jumar.show.compare.overflow_page import overflow_page

    return overflow_page(result)


def _port(result: Any) -> Page:
    from jumar.show.port.page import port_page

    return port_page(result)


def _tuning(result: Any) -> Page:
    from jumar.show.tuning.page import tuning_page

    return tuning_page(result)


_PAGES: dict[str, Callable[[Any], Page]] = {
    "Advice": _advice,
    "Comparison": _comparison,
    "Examination": _environment,
    "Gathered": _operators,
    "LogDiagnosis": _logs,
    "OverflowReport": _overflow,
    "PortResult": _port,
    "TuneResult": _tuning,
}
