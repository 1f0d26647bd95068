"""## What it does
Reports stochastic depth (DropPath) by what it computes: a random number for each sample, floored or drawn as
zero or one, times the input divided by the probability to keep it. The counterpart of the vendor's library is
`torch_npu.contrib.NpuDropPath`.

## Why it matters
Each layer draws its random numbers by itself; the vendor's class draws those of all layers at once, on a
stream of its own.

## Example
```python
def drop_path(x, keep, shape):
    kept = (keep + torch.rand(shape, device=x.device)).floor_()
    return x.div(keep) * kept
```

## Use instead
```python
layer = torch_npu.contrib.NpuDropPath(drop_prob)
torch_npu.contrib.NpuDropPath.enable_droppath_ensemble(model)
```

## Fix safety
No fix: the vendor's class draws other numbers, drops nothing in the first step, and nothing ever where
`enable_droppath_ensemble(model)` was not called.

## References
- Vendor's affinity list (msfmktransplt): DropPath, FairseqDropout; torch_npu 2.13 (`torch_npu.contrib`)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.names import descendants_here
from jumar.convert.syntax.scopes import last_name
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import descendants

RULE = Rule(
    code="JM173",
    name="stochastic-depth",
    summary="Samples are dropped with random numbers of the layer's own.",
    severity=Severity.INFO,
    doc=__doc__,
    opt_in=True,
)


def find(context: Context) -> Iterator[Proposal]:
    """Report functions that multiply a tensor by a mask they have drawn for each sample."""
    source = context.source
    for function in source.nodes(cst.FunctionDef):
        drawn = {name for node in descendants_here(function) for name in _drawn(source, node)}
        product = next((node for node in descendants_here(function) if _multiplies(node, drawn)), None)
        if product is not None:
            yield Proposal(
                rule=RULE,
                span=source.span(product),
                message=f"`{function.name.value}` drops samples with random numbers of its own.",
                action="Where it takes time, use torch_npu.contrib.NpuDropPath and enable its ensemble.",
                confidence="likely",
            )


def _drawn(source: Source, node: cst.CSTNode) -> Iterator[str]:
    """Yield the variable that an assignment gives numbers drawn for a shape that is computed: (batch, 1, 1, ...)."""
    if not isinstance(node, cst.Assign):
        return
    calls = [found for found in descendants(node.value) if isinstance(found, cst.Call)]
    if any(source.qualified(call.func) == "torch.rand" or last_name(call.func) == "bernoulli_" for call in calls):
        shapes = [arg.value for call in calls for arg in call.args if last_name(call.func) in ("rand", "new_empty")]
        if shapes and isinstance(shapes[0], (cst.Name, cst.BinaryOperation)):
            yield from (last_name(target.target) for target in node.targets if last_name(target.target))


def _multiplies(node: cst.CSTNode, drawn: set[str]) -> bool:
    return (
        isinstance(node, cst.BinaryOperation)
        and isinstance(node.operator, cst.Multiply)
        and any(last_name(side) in drawn for side in (node.left, node.right))
    )
