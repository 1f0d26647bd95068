"""`variables`: the table of `data/variables.json`, and of it those that are set in an environment.

The variables of tuning stand in the table of TensorFlow options, which checks scripts with them, and are read there.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from jumar.advise.doctor.variables.variable import Variable
from jumar.tfadapter.options import Option, options_of

AREAS = {
    "torch_npu": "torch_npu",
    "hccl": "HCCL, and distributed runs",
    "cann": "CANN: compiling and running",
    "logs": "Logs, dumps and profiles",
    "tensorflow": "TensorFlow's adapter",
    "tuning": "Tuning",
    "mindspore": "MindSpore",
    "obsolete": "No longer read",
}
"""Area to its title."""
_LEAST_NAME = 8
"""Shorter names are not compared: too many names are like them."""
_FOREIGN = ("NCCL_", "TORCH_NCCL_", "PYTORCH_CUDA_", "CUDA_", "JUMAR_", "UCC_", "MPI_", "OMPI_")
"""Names of other software that are like the vendor's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetVariable:
    """A variable that is set, and what speaks against its value."""

    variable: Variable
    value: str
    complaint: str = ""


@functools.cache
def variables() -> Mapping[str, Variable]:
    """Return all variables by name, in the order of their areas."""
    file = resources.files("jumar.advise.doctor") / "data" / "variables.json"
    document: dict[str, Any] = json.loads(file.read_text("utf-8"))
    found = [_variable(entry, document["sources"]) for entry in document["variables"]]
    found += [_of_option(option) for option in options_of("environment").values()]
    order = list(AREAS)
    return {one.name: one for one in sorted(found, key=lambda one: (order.index(one.area), one.name))}


def variable_named(name: str) -> Variable | None:
    """Return the variable of this name, in any case and with `$` or `export` before it; else None."""
    plain = name.strip().removeprefix("export ").strip().lstrip("$").partition("=")[0].strip("{}").upper()
    return variables().get(plain)


def set_variables(environ: Mapping[str, str]) -> tuple[SetVariable, ...]:
    """Return the known variables that are set, in the order of the table."""
    return tuple(
        SetVariable(variable=one, value=environ[one.name], complaint=_complaint(one, environ[one.name]))
        for one in variables().values()
        if one.name in environ
    )


def misspelled(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each name that is set, unknown, and one slip of the keyboard away from a known one, and that one."""
    known = variables()
    for name in environ:
        if name in known or len(name) < _LEAST_NAME or not name.isupper() or name.startswith(_FOREIGN):
            continue
        near = [one for one in known if len(one) >= _LEAST_NAME and is_one_slip(name, one)]
        if len(near) == 1:
            yield name, near[0]


def is_one_slip(left: str, right: str) -> bool:
    """Tell whether one letter was left out, added, changed or swapped with its neighbour; digits are never a slip."""
    if left == right or abs(len(left) - len(right)) > 1:
        return False
    start = next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    a, b = left[start:], right[start:]
    end = 0
    while end < min(len(a), len(b)) and a[-1 - end] == b[-1 - end]:
        end += 1
    a, b = a[: len(a) - end], b[: len(b) - end]
    if any(character.isdigit() for character in a + b):
        return False
    return max(len(a), len(b)) <= 1 or (len(a) == len(b) == 2 and a == b[::-1])


def _complaint(variable: Variable, value: str) -> str:
    if variable.until:
        return f"not read after {variable.until}" + (f"; use {variable.instead}" if variable.instead else "")
    return "" if variable.judged_by else variable.complaint(value)


def _variable(entry: Mapping[str, Any], sources: Mapping[str, str]) -> Variable:
    fields = dict(entry)
    fields["values"] = tuple(fields.get("values", ()))
    fields["source"] = sources[fields["source"]]
    return Variable(**fields)


def _of_option(option: Option) -> Variable:
    source = option.source if option.source.startswith("http") else f"document {option.source}"
    return Variable(
        name=option.name, area="tuning", meaning=option.meaning, source=source, values=tuple(option.values),
        low=option.low, high=option.high, default=str(option.default or ""),
        form_text="a path" if option.name.endswith("_PATH") else "a text",
    )  # fmt: skip
