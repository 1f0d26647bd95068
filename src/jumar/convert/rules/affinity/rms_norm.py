"""## What it does
Finds RMS normalization written out, `x * rsqrt(mean(x ** 2, -1) + eps)` times a weight, with or without casts
to float32 and back, also where the class keeps the first part in a method of its own. It becomes
`torch_npu.npu_rms_norm`, or for the target `agnostic` PyTorch's `rms_norm`.

## Why it matters
Six operators, each over the whole tensor and some in float32, become one.

## Example
```python
def forward(self, x):
    variance = x.pow(2).mean(-1, keepdim=True)
    x = x * torch.rsqrt(variance + self.eps)
    return self.weight * x
```

## Use instead
```python
def forward(self, x):
    return torch_npu.npu_rms_norm(x, self.weight, self.eps)[0]
```

## Fix safety
Unsafe, with proof: forward and backward are equal within rounding (1e-5 of float32; tests run both forms on
the emulated NPU). In half precision the composition rounds between its operators where the kernel does not,
and the result has the type of `x`, where a float32 weight widened it.

## References
- torch_npu 2.13 (`torch_npu.npu_rms_norm`)
- https://pytorch.org/docs/stable/generated/torch.nn.functional.rms_norm.html
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.affinity.graph.expressions import Expr, is_constant, number, without
from jumar.convert.rules.affinity.graph.search import Found, proposals
from jumar.convert.rules.subject.context import Context

RULE = Rule(
    code="JM169",
    name="composed-rms-norm",
    summary="RMS normalization is composed of several operators.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose the fused normalization."""
    agnostic = context.options.target == "agnostic"
    template = "torch_npu.npu_rms_norm({x}, {weight}, {eps})[0]"
    if agnostic:
        template = "{torch}.nn.functional.rms_norm({x}, {weight}.shape, {weight}, {eps})"
    requires = () if agnostic else ("import torch_npu",)

    def match(expr: Expr) -> Found | None:
        parts = _parts(expr)
        return None if parts is None else Found(parts, template, ("x", "weight"), requires=requires)

    return proposals(context, RULE, match, "RMS normalization is composed of operators here")


def _parts(expr: Expr) -> dict[str, Expr] | None:
    """Return x, weight and eps, and the other places of x, of a normalization that is scaled."""
    if expr.op != "mul" or len(expr.args) != 2:
        return None
    for scaled, weight in (expr.args, expr.args[::-1]):
        normalized, _ = without(scaled, "cast")
        found = _normalized(normalized)
        if found is not None and weight.op == "leaf":
            return {**found, "weight": weight}
    return None


def _normalized(expr: Expr) -> dict[str, Expr] | None:
    """Return the parts of `x * rsqrt(mean(x ** 2) + eps)`."""
    if expr.op != "mul" or len(expr.args) != 2:
        return None
    for value, root in (expr.args, expr.args[::-1]):
        if root.op != "rsqrt" or root.args[0].op != "add" or len(root.args[0].args) != 2:
            continue
        for mean, eps in (root.args[0].args, root.args[0].args[::-1]):
            squared = _mean_of(mean)
            if squared is not None and _same(squared, value):
                return {"x": without(value, "cast")[0], "again": without(squared, "cast")[0], "eps": eps}
    return None


def _mean_of(mean: Expr) -> Expr | None:
    """Return x of `x.pow(2).mean(-1, keepdim=True)`."""
    if mean.op != "mean" or not is_constant(mean.argument(1, "dim"), -1):
        return None
    if not is_constant(mean.argument(2, "keepdim"), True):
        return None
    square = mean.args[0]
    if square.op == "square":
        return square.args[0]
    if square.op == "pow" and number(square.argument(1, "exponent")) == 2:
        return square.args[0]
    return square.args[0] if square.op == "mul" and square.args[0] == square.args[1] else None


def _same(left: Expr, right: Expr) -> bool:
    return without(left, "cast")[0] == without(right, "cast")[0]
