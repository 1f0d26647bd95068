"""Reads the backward pass of frameworks that may show only some of its operators: `complete_backward`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from jumar.recording.schema import CallRow, TensorRow


def lacks_operators(framework: str, rows: Iterable[CallRow]) -> bool:
    """Return whether the backward pass of a framework's step cannot be followed by its operators.

    MindSpore shows some of them only. TensorFlow shows all that Python starts: there, an Inf or NaN that a backward
    operator reads and no call of the step has made tells that one is missing.
    """
    if framework != "tensorflow":
        return framework == "mindspore"
    made: set[int] = set()
    for row in rows:
        reads = row.inputs if row.kind == "op" and row.phase == "backward" else ()
        if any((tensor.num_nan or tensor.num_inf) and tensor.storage not in made for tensor in reads):
            return True
        made.update(tensor.storage for tensor in row.outputs)
    return False


def complete_backward(rows: Sequence[CallRow]) -> list[CallRow]:
    """Return the rows with the gradients of modules in place of the operators that work on gradients.

    Where an observer sees only some backward operators, a value would seem to come from nowhere. The gradients of
    modules are whole; those of a module's parameters count as results of its last backward row. A recording without
    operators, or without gradients of modules, stays as it is.
    """
    has_operators = any(row.kind == "op" for row in rows)
    if not has_operators or not any(row.kind == "module" and row.phase == "backward" for row in rows):
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
