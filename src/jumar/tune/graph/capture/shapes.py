"""The sizes that were asked for: `--input-shape "x:1,3,224,224;8,3,224,224;mask:1,10;8,10"`.

A part with a name begins an input, a part without one is a further size (a gear) of the input before it; the
n-th sizes of all inputs belong together, and an input with one size has that in every gear. `ids:1,128:int64` names
a dtype. The first part may have no name: it is the model's first input.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from jumar.base.errors import UsageError

_PART = re.compile(r"\s*(?:(?P<name>[\w./][\w.:/-]*?)\s*:)?\s*(?P<sizes>\d+(?:\s*,\s*\d+)*)\s*(?::(?P<dtype>\w+))?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class InputShape:
    """One input of one gear."""

    name: str
    """Empty: by its place."""
    shape: tuple[int, ...]
    dtype: str = ""
    """Empty: as the model says, else float32."""

    def __str__(self) -> str:
        """`8x3x224x224`."""
        return "x".join(map(str, self.shape))


Gear = Sequence[InputShape]


def parse_shapes(text: str, option: str = "--input-shape") -> list[Gear]:
    """Return the gears, each with one shape an input; empty for empty text. Raises UsageError for anything else."""
    inputs: list[list[InputShape]] = []
    for part in text.split(";") if text.strip() else []:
        match = _PART.fullmatch(part)
        if match is None:
            raise UsageError(f'"{option} {text}" must look like x:1,3,224,224;8,3,224,224; "{part}" is no such shape.')
        shape = tuple(int(size) for size in match["sizes"].split(","))
        _check_dtype(match["dtype"], option)
        found = InputShape(name=match["name"] or "", shape=shape, dtype=match["dtype"] or "")
        _place(inputs, found)
    return _gears(inputs, text, option)


def _place(inputs: list[list[InputShape]], found: InputShape) -> None:
    """Put a shape to the input it belongs to."""
    for known in inputs:
        if found.name and known[0].name == found.name:
            known.append(found)
            return
    if found.name or not inputs:
        inputs.append([found])
        return
    last = inputs[-1]
    last.append(InputShape(name=last[0].name, shape=found.shape, dtype=found.dtype or last[0].dtype))


def _gears(inputs: Sequence[Sequence[InputShape]], text: str, option: str) -> list[Gear]:
    counts = {len(shapes) for shapes in inputs} - {1}
    if len(counts) > 1:
        raise UsageError(
            f'"{option} {text}" must give every input equally many sizes, or one; got '
            f"{', '.join(str(len(shapes)) for shapes in inputs)}."
        )
    num_gears = counts.pop() if counts else min(len(inputs), 1)
    return [[shapes[gear if len(shapes) > 1 else 0] for shapes in inputs] for gear in range(num_gears)]


def _check_dtype(name: str | None, option: str) -> None:
    known = {"float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"}
    if name and name not in known:
        raise UsageError(f'"{option} …:{name}" must end with a dtype, one of {", ".join(sorted(known))}.')
