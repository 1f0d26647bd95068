"""## What it does
Finds the channel shuffle of ShuffleNet by what it computes (`view` to groups, the two group dimensions
swapped, `view` back) under any name and however it is spread over statements, and writes it as one
`index_select` over the channels.

## Why it matters
Swapping dimensions leaves a tensor that is not contiguous, and making it contiguous is a slow copy on an NPU;
index_select is a kernel that computes. In the guide's ShuffleNet it is the first and largest gain.

## Example
```python
def channel_shuffle(x, groups):
    batch, channels, height, width = x.size()
    x = x.view(batch, groups, channels // groups, height, width)
    x = torch.transpose(x, 1, 2).contiguous()
    return x.view(batch, -1, height, width)
```

## Use instead
```python
def channel_shuffle(x, groups):
    batch, channels, height, width = x.size()
    return x.index_select(1, torch.arange(x.size(1), device=x.device).view(groups, channels // groups).t().flatten())
```

## Fix safety
Unsafe, with proof: forward and backward are equal to the bit (zeros may change their sign in the backward) for
all numbers of groups that divide the channels; tests run both forms on the emulated NPU. What the rewritten
function does with channels that are not divisible is an error, as before.

## References
- PyTorch network model porting and training guide: ShuffleNet, optimization on the Python side
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.affinity.graph.expressions import Expr, is_constant, is_op, without
from jumar.convert.rules.affinity.graph.search import Found, proposals
from jumar.convert.rules.subject.context import Context

RULE = Rule(
    code="JM165",
    name="channel-shuffle",
    summary="Channels are shuffled by swapping dimensions.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose index_select for every channel shuffle."""
    return proposals(context, RULE, _match, "This shuffles channels by swapping dimensions")


def _match(expr: Expr) -> Found | None:
    inner = _flattened(expr)
    if inner is None:
        return None
    swapped, _ = without(inner, "contiguous")
    if not _swaps_groups(swapped):
        return None
    grouped = swapped.args[0]
    sizes = _sizes(grouped)
    if grouped.op != "view" or sizes is None or len(sizes) < 4:
        return None
    if expr.op == "view" and not _gives_back(_sizes(expr), sizes):
        return None
    x, groups, each = grouped.args[0], sizes[1], sizes[2]
    return Found(
        {"x": x, "groups": groups, "each": each},
        "{x}.index_select(1, {torch}.arange({x}.size(1), device={x}.device).view({groups}, {each}).t().flatten())",
        variables=("x",),
    )


def _flattened(expr: Expr) -> Expr | None:
    """Return what is brought back to its number of dimensions: by `view`, or by `flatten(1, 2)`."""
    if expr.op == "view" and len(expr.args) > 2:
        return expr.args[0]
    if expr.op == "view" and len(expr.args) == 2 and is_op(expr.args[1], "tuple"):
        return expr.args[0]
    start, end = expr.argument(1, "start_dim"), expr.argument(2, "end_dim")
    return expr.args[0] if expr.op == "flatten" and is_constant(start, 1) and is_constant(end, 2) else None


def _sizes(expr: Expr) -> list[Expr] | None:
    sizes = list(expr.args[1:])
    if len(sizes) == 1 and sizes[0].op == "tuple":
        return list(sizes[0].args)
    return sizes or None


def _swaps_groups(expr: Expr) -> bool:
    """Tell whether dimensions 1 and 2 are exchanged and the others stay."""
    if expr.op == "transpose":
        dims = {expr.argument(1, "dim0"), expr.argument(2, "dim1")} - {None}
        return {part.value for part in dims if part is not None} == {1, 2}
    if expr.op == "permute":
        order = [part.value for part in (_sizes(expr) or [])]
        return order == [0, 2, 1, *range(3, len(order))]
    return False


def _gives_back(after: list[Expr] | None, before: list[Expr]) -> bool:
    """Tell whether sizes (N, C, ...) are those of (N, groups, each, ...) with the groups joined."""
    if after is None or len(after) != len(before) - 1 or after[0] != before[0] or after[2:] != before[3:]:
        return False
    groups, each, channels = before[1], before[2], after[1]
    if is_constant(channels, -1) or channels == Expr("mul", (groups, each)) or channels == Expr("mul", (each, groups)):
        return True
    return each == Expr("floordiv", (channels, groups)) or _is_channels(channels, before)


def _is_channels(channels: Expr, before: list[Expr]) -> bool:
    return channels.op == "dim" and is_constant(channels.args[1], 1) and is_op(before[0], "dim")
