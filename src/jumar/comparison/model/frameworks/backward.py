"""Reads the backward pass of frameworks that show only some of its operators: `complete_backward`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jumar.recording.schema import CallRow, TensorRow


def complete_backward(rows: Sequence[CallRow]) -> list[CallRow]:
    """Return the rows with the gradients of modules in place of the operators that work on gradients.

    MindSpore hands only some backward operators to an observer, so that a value would seem to come from nowhere. The
    gradients of modules are whole; those of a module's parameters count as results of its last backward row. A
    recording without operators stays as it is.
    """
    if not any(row.kind == "op" for row in rows):
        return list(rows)
    of_parameters: dict[str, list[TensorRow]] = {}
    for row in rows:
        if row.kind == "parameter":
            gradients = (replace(one, name=f"grad_{row.name}") for one in row.inputs if one.name == "input.grad")
            of_parameters.setdefault(row.module_path, []).extend(gradients)
    found: list[CallRow] = []
    for row in reversed(rows):
        if row.kind == "module" and row.phase == "backward":
            outputs = (*row.outputs, *of_parameters.pop(row.module_path, ()))
            found.append(replace(row, kind="op", name=f"backward of {row.name}", outputs=outputs))
        elif row.kind != "op" or row.phase == "forward":
            found.append(row)
    return found[::-1]
