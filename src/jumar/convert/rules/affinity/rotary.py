"""## What it does
Finds rotary position embedding, `x * cos + rotate_half(x) * sin`, where the function that rotates is in the file
and computes what its name says (the two halves of the last dimension exchanged, the second one negated). It
becomes `torch_npu.npu_rotary_mul(x, cos, sin)` where the file brings cos and sin to the dimensions of x itself
(`unsqueeze`, an index with None, a `view` of four sizes); elsewhere it is reported, and for the target `agnostic`.

## Why it matters
Six operators, two of them copies, become one, in the forward and in the backward.

## Example
```python
def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)
def rotary(q, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return (q * cos) + (rotate_half(q) * sin)
```

## Use instead
```python
def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)
def rotary(q, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return torch_npu.npu_rotary_mul(q, cos, sin)
```

## Fix safety
Unsafe, with proof: forward and backward are equal within rounding (1e-6 of float32; tests run both forms on
the emulated NPU). The kernel wants x, cos and sin with four dimensions, and cos and sin of size 1 where they are
repeated; the composition takes any that broadcast.

## References
- torch_npu 2.13 (`torch_npu.npu_rotary_mul`)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.affinity.graph.expressions import Expr, is_constant, is_op, number
from jumar.convert.rules.affinity.graph.flow import Flow
from jumar.convert.rules.affinity.graph.search import Found, proposals
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.source import Source

RULE = Rule(
    code="JM170",
    name="composed-rotary-embedding",
    summary="Rotary position embedding is composed of several operators.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose the fused rotation."""
    rotating = frozenset(_rotating(context.source))
    problem = "torch_npu only has it" if context.options.target == "agnostic" else ""

    def match(expr: Expr) -> Found | None:
        parts = _parts(expr, rotating)
        if parts is None:
            return None
        known = _is_brought(parts["cos"]) and _is_brought(parts["sin"])
        reason = problem or ("" if known else "cos and sin may have fewer dimensions than the kernel wants")
        template = "torch_npu.npu_rotary_mul({x}, {cos}, {sin})"
        return Found(parts, template, ("x",), problem=reason, requires=("import torch_npu",))

    if rotating:
        yield from proposals(context, RULE, match, "Rotary position embedding is composed of operators here")


def _rotating(source: Source) -> Iterator[str]:
    """Yield the functions of the file that exchange the halves of the last dimension and negate the second."""
    for function in source.nodes(cst.FunctionDef):
        parameters = function.params.params
        if len(parameters) == 1:
            result = Flow(source, function).result
            if result is not None and _rotates(result, parameters[0].name.value):
                yield function.name.value


def _rotates(expr: Expr, name: str) -> bool:
    dim = expr.argument(1, "dim")
    if expr.op != "cat" or not is_constant(dim, -1) or not is_op(expr.args[0], "tuple") or len(expr.args[0].args) != 2:
        return False
    second, first = expr.args[0].args
    x = Expr("leaf", value=name)
    return second.op == "neg" and _half(second.args[0], x) == 1 and _half(first, x) == 0


def _half(expr: Expr, x: Expr) -> int | None:
    """Return which half of x's last dimension an expression is, None where it is neither."""
    if not expr.args or (expr.args[0] != x and not is_op(expr.args[0], "chunk")):
        return None
    if expr.op == "item" and is_op(expr.args[0], "chunk"):
        chunk = expr.args[0]
        halves = number(chunk.argument(1, "chunks")) == 2 and is_constant(chunk.argument(2, "dim"), -1)
        return int(number(expr.args[1]) or 0) if halves and chunk.args[0] == x else None
    if expr.op != "index" or len(expr.args) != 3 or not is_constant(expr.args[1], ...) or expr.args[2].op != "slice":
        return None
    lower, upper, step = expr.args[2].args
    middle = Expr("floordiv", (Expr("dim", (x, Expr("constant", value=-1))), Expr("constant", value=2)))
    if not is_constant(step, None):
        return None
    if lower == middle and is_constant(upper, None):
        return 1
    return 0 if upper == middle and is_constant(lower, None, 0) else None


def _is_brought(expr: Expr) -> bool:
    """Tell whether an expression is given dimensions of size 1 here."""
    if expr.op == "index":
        return any(is_constant(part, None) for part in expr.args[1:])
    return expr.op == "unsqueeze" or (expr.op == "view" and len(expr.args) == 5)


def _parts(expr: Expr, rotating: frozenset[str]) -> dict[str, Expr] | None:
    if expr.op != "add" or len(expr.args) != 2 or any(part.op != "mul" or len(part.args) != 2 for part in expr.args):
        return None
    for plain, turned in (expr.args, expr.args[::-1]):
        for x, cos in (plain.args, plain.args[::-1]):
            for rotated, sin in (turned.args, turned.args[::-1]):
                if rotated.op == "local" and rotated.value in rotating and rotated.args == (x,):
                    return {"x": x, "cos": cos, "sin": sin, "again": rotated.args[0]}
    return None
