"""## What it does
Finds attention written out (`q @ k.transpose(-2, -1)`, scaled, masked, softmax, dropout, `@ v`) however it is
spread over statements, and calls a fused kernel. Where the file shows that heads are dimension 1 of four
(queries come from `.transpose(1, 2)` of a four-dimensional view, or a permutation to such), that is
`torch_npu.npu_fusion_attention` in the layout BNSD; else, for masks that are added, and for the target
`agnostic`, PyTorch's `scaled_dot_product_attention`, which torch_npu maps to the same kernel.

Weights that are used elsewhere (returned, stored) keep the composition, and so do a dropout this file does
not show and a scale that may be a tensor.

## Why it matters
The composition writes the matrix of all pairs to memory several times, the kernel never does.

## Example
```python
def attend(self, q, k, v):
    scores = (q @ k.transpose(-2, -1)) * q.size(-1) ** -0.5
    weights = scores.softmax(dim=-1)
    return weights @ v
```

## Use instead
```python
def attend(self, q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=q.size(-1) ** -0.5)
```

## Fix safety
Unsafe, with proof: without dropout forward and backward are equal within rounding (1e-5 of float32; tests
run both forms on the emulated NPU). With dropout other weights are dropped. Rows that are masked throughout
differ: NaN or the mean of all values, by the constant that was filled in, against the kernel's own. Kernels
refuse masks of one dimension, and masks that are added in another type than the queries'.

## References
- torch_npu 2.13 (`torch_npu.npu_fusion_attention`): https://www.hiascend.com/document
- https://pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.affinity.graph.expressions import Expr, is_constant, is_op, number
from jumar.convert.rules.affinity.graph.numbers import is_number_expression
from jumar.convert.rules.affinity.graph.search import Found, proposals
from jumar.convert.rules.subject.context import Context

RULE = Rule(
    code="JM167",
    name="attention-composition",
    summary="Attention is composed of matrix products and a softmax.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


_FILL = -1e4
"""A filled score at most this is taken for a mask."""


@dataclass(slots=True)
class Attention:
    """The parts of an attention that was recognised."""

    query: Expr
    key: Expr
    value: Expr
    scale: str = "1.0"
    mask: Expr | None = None
    added: Expr | None = None
    dropout: str = ""
    parts: dict[str, Expr] = field(default_factory=dict)
    problem: str = ""


def find(context: Context) -> Iterator[Proposal]:
    """Propose a fused kernel for every composition."""
    fused = context.options.target == "npu"

    def match(expr: Expr) -> Found | None:
        attention = recognised(expr)
        if attention is None:
            return None
        scale = attention.parts.get("scale")
        if scale is not None and not is_number_expression(context.source, scale):
            attention.problem = "the scale may be a tensor"
        return _written(attention, fused=fused)

    return proposals(context, RULE, match, "Attention is composed of operators here")


def recognised(expr: Expr) -> Attention | None:
    """Return the attention that an expression computes, or None."""
    if expr.op != "matmul" or len(expr.args) != 2:
        return None
    weights, value = expr.args
    weights, dropped = _without_dropout(weights)
    if weights.op != "softmax" or not is_constant(weights.argument(1, "dim"), -1, 3):
        return None
    scores, masks = _without_masks(weights.args[0])
    product, scale = _without_scale(scores)
    if product is None:
        return None
    transposed = product.args[1]
    if transposed.op != "transpose" or not _last_two(transposed):
        return None
    found = Attention(product.args[0], transposed.args[0], value)
    found.parts = {"q": found.query, "k": found.key, "v": value}
    _note(found, dropped, masks, scale)
    return found


def _note(found: Attention, dropped: list[Expr], masks: list[Expr], scale: tuple[str, Expr] | None) -> None:
    if scale is not None:
        found.scale, found.parts["scale"] = scale
    for operator in dropped:
        _note_dropout(found, operator)
    for operator in masks:
        if found.mask is not None or found.added is not None:
            found.problem = "several masks follow one another"
        elif operator.op == "masked_fill":
            found.mask = found.parts["mask"] = operator.args[1]
        else:
            found.added = found.parts["mask"] = operator.args[1]


def _note_dropout(found: Attention, operator: Expr) -> None:
    if operator.op == "identity":
        return
    layer = operator.value
    probability, training = operator.argument(1, "p"), operator.argument(2, "training")
    if isinstance(layer, str):
        found.dropout = f"{layer}.p if {layer}.training else 0.0"
    elif probability is not None and training is not None:
        found.parts["p"], found.parts["training"] = probability, training
        found.dropout = "{p} if {training} else 0.0"
    elif probability is not None:
        found.parts["p"] = probability
        found.dropout = "{p}"
    else:
        found.problem = "how much is dropped is not written out"


def _without_dropout(expr: Expr) -> tuple[Expr, list[Expr]]:
    removed = []
    while expr.op in ("dropout", "identity", "cast") and expr.args:
        if expr.op != "cast":
            removed.append(expr)
        elif expr.args[0].op != "softmax":
            break
        expr = expr.args[0]
    return expr, removed


def _without_masks(expr: Expr) -> tuple[Expr, list[Expr]]:
    """Return the scores before masks were filled in or added, and those operators."""
    removed: list[Expr] = []
    while _is_masked(expr):
        removed.append(expr)
        expr = expr.args[0]
    return expr, removed


def _is_masked(expr: Expr) -> bool:
    if expr.op == "masked_fill":
        return _is_low(expr.argument(2, "value"))
    return expr.op == "add" and len(expr.args) == 2 and _without_scale(expr.args[0])[0] is not None


def _is_low(value: Expr | None) -> bool:
    low = number(value)
    if low is not None:
        return low <= _FILL
    text = str(value.value[0] if isinstance(value.value, tuple) else value.value) if value is not None else ""
    return text.replace('"', "'") in ("float('-inf')", "-float('inf')", "-torch.inf", "-math.inf", "-np.inf") or (
        value is not None and value.op == "neg" and "inf" in str(value.args[0].value)
    )


def _without_scale(expr: Expr) -> tuple[Expr | None, tuple[str, Expr] | None]:
    """Return the product of queries and keys inside an expression, None if it is none, and how it was scaled."""
    if expr.op == "matmul" and len(expr.args) == 2:
        return expr, None
    if expr.op not in ("mul", "div") or len(expr.args) != 2:
        return None, None
    product, factor = expr.args
    if expr.op == "mul" and is_op(factor, "matmul"):
        product, factor = factor, product
    if not is_op(product, "matmul") or is_op(factor, "sqrt", "rsqrt") or "torch." in str(factor.value):
        return None, None
    return product, ("{scale}" if expr.op == "mul" else "1.0 / ({scale})", factor)


def _last_two(expr: Expr) -> bool:
    dims = {part.value for part in (expr.argument(1, "dim0"), expr.argument(2, "dim1")) if part is not None}
    return dims in ({-2, -1}, {2, 3})


def _has_heads(expr: Expr) -> bool:
    """Tell whether an expression has four dimensions with the heads second: (batch, heads, length, width)."""
    if expr.op == "transpose" and {part.value for part in expr.args[1:3]} == {1, 2}:
        inner = expr.args[0]
        sizes = inner.args[1].args if len(inner.args) == 2 else inner.args[1:]
        return inner.op == "view" and len(sizes) == 4
    if expr.op == "permute" and _order(expr) == [0, 2, 1, 3]:
        return True
    if expr.op == "item":
        return _has_heads_of_three(expr.args[0])
    return expr.op == "contiguous" and _has_heads(expr.args[0])


def _order(expr: Expr) -> list[object]:
    """Return the dimensions of a permutation, given one by one or as a tuple."""
    dims = expr.args[1].args if len(expr.args) == 2 else expr.args[1:]
    return [part.value for part in dims]


def _has_heads_of_three(expr: Expr) -> bool:
    """Tell whether an expression is queries, keys and values stacked before (batch, heads, length, width)."""
    while expr.op in ("item", "contiguous", "unbind"):
        expr = expr.args[0]
    return expr.op == "permute" and _order(expr) == [2, 0, 3, 1, 4]


def _written(found: Attention, *, fused: bool) -> Found:
    if fused and found.added is None and _has_heads(found.query):
        options = ["{q}", "{k}", "{v}", "{q}.size(1)", "'BNSD'", f"scale={found.scale}"]
        options += ["atten_mask={mask}"] if found.mask is not None else []
        options += [f"keep_prob=1.0 - ({found.dropout})"] if found.dropout else []
        call = f"torch_npu.npu_fusion_attention({', '.join(options)})[0]"
        return Found(found.parts, call, ("q",), found.problem, ("import torch_npu",))
    options = ["{q}", "{k}", "{v}"]
    options += ["attn_mask=~({mask})"] if found.mask is not None else []
    options += ["attn_mask={mask}"] if found.added is not None else []
    options += [f"dropout_p={found.dropout}"] if found.dropout else []
    options.append(f"scale={found.scale}")
    return Found(
        found.parts,
        f"{{torch}}.nn.functional.scaled_dot_product_attention({', '.join(options)})",
        problem=found.problem,
    )
