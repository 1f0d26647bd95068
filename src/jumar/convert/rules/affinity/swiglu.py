"""## What it does
Finds SwiGLU over the two halves of one tensor, `silu(a) * b` with `a, b = x.chunk(2, dim=-1)`, and calls
`torch_npu.npu_swiglu`. The target `agnostic` has a finding only.

## Why it matters
The split leaves two tensors that are not contiguous; the kernel reads the one tensor and writes the result.

## Example
```python
def gate(x):
    a, b = x.chunk(2, dim=-1)
    return torch.nn.functional.silu(a) * b
```

## Use instead
```python
def gate(x):
    return torch_npu.npu_swiglu(x, dim=-1)
```

## Fix safety
Unsafe, with proof: forward and backward are equal within rounding (1e-6 of float32; tests run both forms on
the emulated NPU). An odd dimension, which chunk splits unequally, is an error in both.

## References
- torch_npu 2.13 (`torch_npu.npu_swiglu`)
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
    code="JM171",
    name="composed-swiglu",
    summary="SwiGLU is composed of a split, an activation and a product.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose the fused gate."""
    problem = "torch_npu only has it" if context.options.target == "agnostic" else ""

    def match(expr: Expr) -> Found | None:
        if expr.op != "mul" or len(expr.args) != 2:
            return None
        for gate, value in (expr.args, expr.args[::-1]):
            chunk = _split(gate, value)
            if chunk is not None:
                x, dim = chunk.args[0], chunk.argument(2, "dim")
                assert dim is not None
                parts = {"x": x, "dim": dim}
                template = "torch_npu.npu_swiglu({x}, dim={dim})"
                return Found(parts, template, problem=problem, requires=("import torch_npu",))
        return None

    return proposals(context, RULE, match, "SwiGLU is composed of operators here")


def _split(gate: Expr, value: Expr) -> Expr | None:
    """Return the chunking whose first half is activated and whose second half it multiplies."""
    if gate.op != "silu" or len(gate.args) != 1 or gate.args[0].op != "item" or value.op != "item":
        return None
    first, second = gate.args[0], value
    chunk = first.args[0]
    if chunk != second.args[0] or not is_op(chunk, "chunk") or not is_constant(chunk.argument(1, "chunks"), 2):
        return None
    halves = is_constant(first.args[1], 0) and is_constant(second.args[1], 1)
    return chunk if halves and chunk.argument(2, "dim") is not None else None
