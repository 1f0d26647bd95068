"""The units that a bisection switches: an operator in a module, and sets of these. Imports no torch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple, get_args

from jumar.base.errors import UsageError

How = Literal["float32", "cpu", "float64"]
"""`cpu`: the CPU's kernels in the operator's own dtypes; `float32`: these with halves widened to float32;
`float64`: in float64. The results come back in the dtypes that the run has."""

ENVIRONMENT = "JUMAR_INTERVENTION"
"""Path of the JSON file that `Intervention.save` wrote."""

Over = Literal["both", "operators", "modules"]


class Unit(NamedTuple):
    """An operator in a module, in the forward and the backward pass."""

    operator: str
    """Without overload: `aten::addmm`."""
    module_path: str

    def __str__(self) -> str:
        return f"{self.operator} of {self.module_path or 'no module'}"


def unit_of(name: str, module_path: str) -> Unit:
    """Return the unit of an operator's call."""
    return Unit(name.partition(".")[0], module_path)


def matching(units: Iterable[Unit], operators: Iterable[str], modules: Iterable[str]) -> list[Unit]:
    """Return the units whose operator and module match a glob of each list; an empty list matches all."""
    of, within = tuple(operators), tuple(modules)
    return [
        unit
        for unit in units
        if (not of or any(fnmatchcase(unit.operator, glob) for glob in of))
        and (not within or any(_is_within(unit.module_path, glob) for glob in within))
    ]


def _is_within(path: str, glob: str) -> bool:
    return fnmatchcase(path, glob) or fnmatchcase(path, f"{glob}.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervention:
    """Which units of a run are calculated otherwise, and how. Raises UsageError for an unknown way."""

    units: frozenset[Unit]
    how: How = "float32"
    report: str = ""
    """Folder in which each process says, at its end, how often each unit was switched."""

    def __post_init__(self) -> None:
        if self.how not in get_args(How):
            raise UsageError(f"operators can run in {', '.join(get_args(How))}; got {self.how}. Try float32.")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the intervention where the processes of a run find it. Raises OSError."""
        data = {"units": sorted(self.units), "how": self.how, "report": self.report}
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - a path of any kind
            json.dump(data, file)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Intervention | None:
        """Return the intervention that the environment names, or None. Raises UsageError when it cannot be read."""
        path = environ.get(ENVIRONMENT)
        if not path:
            return None
        try:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123 - a path of any kind
                data: dict[str, Any] = json.load(file)
            units = frozenset(Unit(*item) for item in data["units"])
            return cls(units=units, how=data["how"], report=data["report"])
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UsageError(
                f"{ENVIRONMENT} must name a file that Jumar wrote ({error}). Unset it to go on."
            ) from error
