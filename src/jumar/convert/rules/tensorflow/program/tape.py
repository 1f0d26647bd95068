"""`hvd.DistributedGradientTape`: averages the gradients where they are asked for instead."""

from __future__ import annotations

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.rules.tensorflow.program.change import around, removed
from jumar.convert.syntax.scopes import is_named
from jumar.convert.syntax.source import Source


def gradients_of(source: Source, call: cst.Call) -> tuple[Replacement, ...] | None:
    """Return the edits that drop `tape = hvd.DistributedGradientTape(tape)` and average what `tape.gradient` returns.

    None where the tape is written otherwise, or its gradients are not asked for in the same function.
    """
    assign = source.parent(call)
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1 or not call.args:
        return None
    target, given = assign.targets[0].target, call.args[0].value
    if not isinstance(target, cst.Name) or not is_named(given, target.value):
        return None
    statement = removed(source, call)
    here = source.enclosing(call, cst.FunctionDef)
    asked = [
        found
        for found in source.nodes(cst.Call)
        if isinstance(found.func, cst.Attribute) and found.func.attr.value == "gradient"
        if is_named(found.func.value, target.value) and source.enclosing(found, cst.FunctionDef) is here
    ]
    if statement is None or not asked:
        return None
    edits = [
        edit for found in asked for edit in around(source, found, "npu_device.distribute.all_reduce(", ', "mean")')
    ]
    return (statement, *edits)
