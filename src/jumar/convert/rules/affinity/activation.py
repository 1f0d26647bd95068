"""## What it does
Finds activations that are composed of others, and calls the one operator: `x * sigmoid(x)` is SiLU (Swish),
`x * tanh(softplus(x))` is Mish, `x * sigmoid(1.702 * x)` is the fast GELU (`torch_npu.npu_fast_gelu`, not for
the target `agnostic`).

## Why it matters
Each operator of a composition reads and writes the whole tensor, and keeps what its backward needs.

## Example
```python
def swish(x):
    return x * torch.sigmoid(x)
```

## Use instead
```python
def swish(x):
    return torch.nn.functional.silu(x)
```

## Fix safety
Unsafe, with proof: forward and backward are equal within rounding (1e-6 of float32; tests run both forms on
the emulated NPU).

## References
- Vendor's affinity list (msfmktransplt): Mish, SiLU, Swish
- https://pytorch.org/docs/stable/generated/torch.nn.functional.silu.html
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.affinity.graph.expressions import Expr, is_op, number
from jumar.convert.rules.affinity.graph.search import Found, proposals
from jumar.convert.rules.subject.context import Context

RULE = Rule(
    code="JM168",
    name="composed-activation",
    summary="An activation is composed of several operators.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


_QUICK_GELU = 1.702


def find(context: Context) -> Iterator[Proposal]:
    """Propose the one operator of each composition."""
    agnostic = context.options.target == "agnostic"

    def match(expr: Expr) -> Found | None:
        if expr.op != "mul" or len(expr.args) != 2:
            return None
        for x, gate in (expr.args, expr.args[::-1]):
            found = _gated(x, gate, agnostic)
            if found is not None:
                return found
        return None

    return proposals(context, RULE, match, "An activation is composed of operators here")


def _gated(x: Expr, gate: Expr, agnostic: bool) -> Found | None:
    if gate.options or len(gate.args) != 1:
        return None
    inner = gate.args[0]
    if gate.op == "sigmoid" and inner == x:
        return Found({"x": x, "same": inner}, "{torch}.nn.functional.silu({x})", ("x",))
    if gate.op == "tanh" and is_op(inner, "softplus") and inner.args == (x,) and not inner.options:
        return Found({"x": x, "same": inner.args[0]}, "{torch}.nn.functional.mish({x})", ("x",))
    if gate.op == "sigmoid" and inner.op == "mul" and len(inner.args) == 2 and x in inner.args:
        same, factor = inner.args if inner.args[0] == x else inner.args[::-1]
        if number(factor) == _QUICK_GELU:
            problem = "there is no operator for it on every accelerator" if agnostic else ""
            parts = {"x": x, "same": same}
            return Found(parts, "torch_npu.npu_fast_gelu({x})", ("x",), problem, ("import torch_npu",))
    return None
