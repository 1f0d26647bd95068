"""The table of options, read from `options.json` beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jumar.tfadapter.options.option import Option, Style


@cache
def options_of(style: Style) -> Mapping[str, Option]:
    """Return the options of a style by their names."""
    return {option.name: option for option in _all() if option.style == style}


@cache
def others_of_the_tuner() -> frozenset[str]:
    """Return the names of the other options that `aoe` and `atc` take, of which nothing is checked."""
    return frozenset(_document()["others_of_the_tuner"]["names"])


@cache
def _all() -> tuple[Option, ...]:
    return tuple(option for entry in _document()["options"] for option in _options(entry))


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(files("jumar.tfadapter.options").joinpath("options.json").read_text("utf-8"))
    return document


def _options(entry: dict[str, Any]) -> Iterator[Option]:
    """Yield an entry of the file once for each style that has it, under its name there."""
    rest = {key: value for key, value in entry.items() if key not in ("names", "values_by_chip")}
    rest |= {name: tuple(entry[name]) for name in ("values", "excludes", "other_kinds") if name in entry}
    chips = tuple((chip, tuple(values)) for chip, values in entry.get("values_by_chip", {}).items())
    for style, name in entry["names"].items():
        yield Option(name=name, style=style, values_by_chip=chips, **rest)
