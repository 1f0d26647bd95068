"""## What it does
Writes `npu_unary_ops.gelu` for GELU in scripts of TensorFlow 1: in a function of the script that computes the formula
with `tanh`, and for `tf.nn.gelu(x, approximate=True)`. The exact form with `erf` is reported.

## Why it matters
The adapter has one operator for what is otherwise eight.

## Example
```python
def gelu(x):
    cdf = 0.5 * (1.0 + tf.tanh((np.sqrt(2 / np.pi) * (x + 0.044715 * tf.pow(x, 3)))))
    return x * cdf
```

## Use instead
```python
def gelu(x):
    return npu_unary_ops.gelu(x)
```

## Fix safety
Safe: the same formula. The exact form differs from it by up to 5e-4 and stays.

## References
- https://www.hiascend.com/document/detail/en/TensorFlowCommunity/900/migration/tfmigr1/tfmigr1_000046.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.code import deleted
from jumar.convert.rules.subject.context import Context, keyword
from jumar.convert.rules.tensorflow.program.change import replaced, without
from jumar.convert.rules.tensorflow.program.names import calls
from jumar.convert.rules.tensorflow.program.style import adapter, style_of
from jumar.convert.syntax.scopes import is_named
from jumar.convert.syntax.tree import is_docstring

RULE = Rule(
    code="JM652",
    name="tensorflow-gelu",
    summary="GELU is composed of operators where the adapter has one.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="safe",
)

_ONE = "`npu_unary_ops.gelu` is the same formula in one operator."


def find(context: Context) -> Iterator[Proposal]:
    """Write the adapter's operator."""
    if style_of(context) != "v1":
        return
    for function in context.source.nodes(cst.FunctionDef):
        if "gelu" in function.name.value.lower() and "npu_" not in context.source.code(function):
            yield from _of_function(context, function)
    for _, found, call in calls(context.source, "nn.gelu"):
        approximate = keyword(call, "approximate")
        edits: tuple[Replacement, ...] = ()
        if approximate is not None and is_named(approximate.value, "True"):
            edits = (
                replaced(context.source, found.node, "npu_unary_ops.gelu"),
                *without(context.source, call, [approximate]),
            )
        yield _proposal(context, call, edits)


def _of_function(context: Context, function: cst.FunctionDef) -> Iterator[Proposal]:
    source, code = context.source, context.source.code(function)
    if "0.044715" not in code:
        if "erf" in code:
            yield _proposal(context, function.name, ())
        return
    lines = list(function.body.body) if isinstance(function.body, cst.IndentedBlock) else []
    steps = [line for line in lines if not is_docstring(line)]
    if not function.params.params or not steps or not all(_is_step(line) for line in steps[:-1]):
        yield _proposal(context, function.name, ())
        return
    last = steps[-1].body[0] if isinstance(steps[-1], cst.SimpleStatementLine) else None
    if not isinstance(last, cst.Return) or last.value is None:
        yield _proposal(context, function.name, ())
        return
    start, end = source.outer_span(last.value)
    edits = [deleted(source, line) for line in steps[:-1] if isinstance(line, cst.SimpleStatementLine)]
    edits.append(Replacement(start, end, f"npu_unary_ops.gelu({function.params.params[0].name.value})"))
    yield _proposal(context, function.name, tuple(edits))


def _is_step(line: cst.CSTNode) -> bool:
    return isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 and isinstance(line.body[0], cst.Assign)


def _proposal(context: Context, node: cst.CSTNode, edits: tuple[Replacement, ...]) -> Proposal:
    return Proposal(
        rule=RULE, span=context.source.span(node), replacements=edits,
        requires=(adapter(context).name("npu_unary_ops"),) if edits else (),
        message=_ONE if edits else "This GELU is not the form with tanh that the adapter has an operator for.",
        action="" if edits else "If an error of 5e-4 may be, return npu_unary_ops.gelu(x).",
    )  # fmt: skip
