"""## What it does
Finds the Focus layer of YOLOv5 by what it computes: four strided slices, every second row and column of a
picture, stacked as channels. It becomes one rearrangement: both sides are split in pairs, and the pairs moved
before the channels.

## Why it matters
Each strided slice is a copy of its own on an NPU, and the concatenation a fifth; the rearrangement is one.

## Example
```python
def focus(x):
    return torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]], 1)
```

## Use instead
```python
def focus(x):
    return x.unflatten(-1, (-1, 2)).unflatten(-3, (-1, 2)).permute(0, 5, 3, 1, 2, 4).flatten(1, 3)
```

## Fix safety
Unsafe, with proof: forward and backward are equal to the bit for pictures (batch, channels, height, width) with
even sides; tests run both forms on the emulated NPU. Odd sides are an error in both. A picture without a batch,
for which the original stacked rows, is an error afterwards.

## References
- Vendor's affinity list (msfmktransplt): Focus; torch_npu 2.13 (`torch_npu.contrib.Focus`)
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.affinity.graph.expressions import Expr, is_constant, is_op
from jumar.convert.rules.affinity.graph.search import Found, proposals
from jumar.convert.rules.subject.context import Context

RULE = Rule(
    code="JM166",
    name="focus-slices",
    summary="A picture is split into four by strided slices.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


_ROWS, _COLUMNS = 3, 5
"""Where the parity of rows and columns stands once both sides are split in pairs."""

_ORDERS: dict[tuple[tuple[int, int], ...], tuple[int, int]] = {
    ((0, 0), (1, 0), (0, 1), (1, 1)): (_COLUMNS, _ROWS),
    ((0, 0), (0, 1), (1, 0), (1, 1)): (_ROWS, _COLUMNS),
}
"""Parities of (row, column) in the order of the slices, and the order in which the pairs come before the channels."""


def find(context: Context) -> Iterator[Proposal]:
    """Propose one rearrangement for four strided slices."""
    return proposals(context, RULE, _match, "This takes a picture apart by strided slices")


def _match(expr: Expr) -> Found | None:
    if expr.op != "cat" or not is_constant(expr.argument(1, "dim"), 1) or not is_op(expr.args[0], "tuple"):
        return None
    slices = expr.args[0].args
    if len(slices) != 4 or any(part.op != "index" or part.args[0] != slices[0].args[0] for part in slices):
        return None
    parities = [parity for part in slices if (parity := _parity(str(part.value))) is not None]
    if len(set(parities)) != 4:
        return None
    x = slices[0].args[0]
    order = _ORDERS.get(tuple(parities))
    if order is None:
        return Found({"x": x}, "", problem="the slices come in an order of their own")
    pairs = "{x}.unflatten(-1, (-1, 2)).unflatten(-3, (-1, 2))"
    parts = {"x": x} | {f"x{index}": part.args[0] for index, part in enumerate(slices[1:])}
    return Found(parts, f"{pairs}.permute(0, {order[0]}, {order[1]}, 1, 2, 4).flatten(1, 3)", ("x",))


def _parity(index: str) -> tuple[int, int] | None:
    """Return (row, column) of `...,row::2,column::2`, or of the same with two full slices before."""
    parts = index.split(",")
    rest = parts[1:] if parts[0] == "..." else parts[2:] if parts[:2] == [":", ":"] else []
    known = {"::2": 0, "0::2": 0, "1::2": 1}
    if len(rest) != 2 or any(part not in known for part in rest):
        return None
    return known[rest[0]], known[rest[1]]
