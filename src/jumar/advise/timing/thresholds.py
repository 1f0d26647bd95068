"""`Thresholds`: when the rules about timelines speak, from `thresholds.toml` and a user's own file."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jumar.base.errors import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BUILT_IN = Path(__file__).with_name("thresholds.toml")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Numbers by rule code and name."""

    values: Mapping[str, Mapping[str, float]]

    @classmethod
    def load(cls, path: Path | None = None) -> Thresholds:
        """Return the built-in numbers, with those of a user's file in their places.

        Raises InputError for a file that cannot be read, a rule or a name that is not there, and no number.
        """
        built_in = _read(BUILT_IN)
        if path is None:
            return cls(built_in)
        own = _read(path)
        for code, table in own.items():
            _require(path, code, "rule", built_in)
            for name in table:
                _require(path, f"{name}", f"number of {code}", built_in[code])
        return cls({code: {**table, **own.get(code, {})} for code, table in built_in.items()})

    def of(self, code: str, name: str) -> float:
        """Return one number."""
        return self.values[code][name]


def _require(path: Path, name: str, what: str, known: Mapping[str, Any]) -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}."
        raise InputError(f"{path}: there is no {what} named {name!r}; {hint}")


@cache
def _read(path: Path) -> dict[str, dict[str, float]]:
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} must be a TOML file of thresholds: {error}.") from error
    for code, table in found.items():
        if not isinstance(table, dict) or not all(type(value) in (int, float) for value in table.values()):
            raise InputError(f"{path}: [{code}] must hold numbers by name; got {str(table)[:60]}.")
    return found
