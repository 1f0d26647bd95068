"""Replays operators that draw random numbers, where their outputs show what was drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from jumar import operators
from jumar.comparison.replay.rebuilt.invocation import Invocation, TensorAt, overload
from jumar.comparison.replay.rebuilt.refusal import NotReplayable
from jumar.recording.schema import CallRow

_KEPT_BY = {"_fused_dropout": lambda p: p, "native_dropout": lambda p: 1.0 - p}
"""Operators that return (output, mask), to the share of elements kept as a function of their `p`."""


def draws(invocation: Invocation) -> bool:
    """Return whether this call draws random numbers. A dropout of 0, or one in evaluation, draws none."""
    return operators.draws(invocation.name, invocation.values)


def without_draws(invocation: Invocation, row: CallRow) -> tuple[Invocation, tuple[str, ...]]:
    """Return a call that gives the same outputs without drawing, and which outputs (all when empty) it gives.

    Raises NotReplayable when the recording does not show what was drawn.
    """
    if not draws(invocation):
        return invocation, ()
    base = invocation.operator.overloadpacket.__name__
    masks = [tensor for tensor in row.outputs if tensor.name == "output.1"]
    kept = _KEPT_BY.get(base)
    if kept is not None and masks:
        return _masked(invocation, TensorAt(masks[0]), float(kept(invocation.values["p"]))), ("output.0",)
    if base in ("_npu_dropout", "npu_dropout") and masks:
        operator = overload("npu::npu_dropout_do_mask")
        values = {**_first(invocation), "mask": TensorAt(masks[0]), "p": invocation.values["p"]}
        return Invocation(operator, values), ("output.0",)
    raise NotReplayable("random", f"{row.name} draws random numbers, and its outputs do not show which")


def _first(invocation: Invocation) -> Mapping[str, Any]:
    name = invocation.operator._schema.arguments[0].name
    return {"self": invocation.values[name]}


def _masked(invocation: Invocation, mask: TensorAt, kept: float) -> Invocation:
    """Return the dropout as `input * mask / kept`, an operator that does the same without drawing."""
    operator = torch.ops.aten.native_dropout_backward.default  # grad_output * mask * scale
    first = invocation.operator._schema.arguments[0].name
    values = {"grad_output": invocation.values[first], "mask": mask, "scale": 1.0 / kept if kept else 0.0}
    return Invocation(operator, values)
