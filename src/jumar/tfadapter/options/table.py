"""The table of options, read from `options.json` beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jumar.tfadapter.options.option import Option, Style


@cache
def options_of(style: Style) -> Mapping[str, Option]:
    """Return the options of a style by their names."""
    return {option.name: option for option in _all() if option.style == style}


@cache
def _all() -> tuple[Option, ...]:
    text = files("jumar.tfadapter.options").joinpath("options.json").read_text("utf-8")
    return tuple(_option(entry) for entry in json.loads(text)["options"])


def _option(entry: dict[str, Any]) -> Option:
    tuples = {name: tuple(entry[name]) for name in ("values", "excludes") if name in entry}
    chips = tuple((chip, tuple(values)) for chip, values in entry.get("values_by_chip", {}).items())
    return Option(**{**entry, **tuples, "values_by_chip": chips})
