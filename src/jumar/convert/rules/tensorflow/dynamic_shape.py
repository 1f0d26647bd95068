"""## What it does
Reports operators whose result has a shape that depends on values (`tf.where` with one argument, `boolean_mask`,
`unique`, `dynamic_partition`), and placeholders with an open dimension.

## Why it matters
The adapter compiles a graph for the shapes it sees. A placeholder with `None` compiles once a batch size; a shape that
depends on values takes the adapter's path for changing shapes.

## Example
```python
kept = tf.boolean_mask(boxes, scores > 0.5)
```

## Use instead
```python
kept = boxes * tf.cast(scores > 0.5, boxes.dtype)[:, None]
```

## Fix safety
No fix.

## References
- https://www.hiascend.com/document/detail/zh/TensorFlowCommercial/latest/migration/tfmigr1/tfmigr1_000019.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.model.spans import Span
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.places import summary
from jumar.convert.rules.tensorflow.program.names import calls
from jumar.convert.syntax.scopes import is_named
from jumar.convert.syntax.tree import descendants

RULE = Rule(
    code="JM663",
    name="tensorflow-dynamic-shape",
    summary="A tensor's shape depends on values or is open.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

_OPERATORS = (
    "where",
    "boolean_mask",
    "unique",
    "unique_with_counts",
    "dynamic_partition",
    "setdiff1d",
    "compat.v1.where",
)


def find(context: Context) -> Iterator[Proposal]:
    """Report the operators, and the placeholders, each once a file."""
    source = context.source
    found = [
        (name, source.span(call))
        for name, _, call in calls(source, *_OPERATORS)
        if not name.endswith("where") or len(call.args) == 1
    ]
    names = sorted({name for name, _ in found})
    yield from summary(
        source, RULE, [span for _, span in found], "The shape of a result depends on values",
        severity=Severity.ADVICE, evidence={"names": list(names)},
        action="Use a mask of a fixed shape where that is possible.",
    )  # fmt: skip
    opened: list[Span] = [source.span(call) for _, _, call in calls(source, "placeholder") if _is_open(call)]
    yield from summary(
        source, RULE, opened, "A placeholder has an open dimension, and each size is a graph to compile",
        evidence={"names": ["placeholder"]},
        severity=Severity.INFO, action="Feed batches of one size.",
    )  # fmt: skip


def _is_open(call: cst.Call) -> bool:
    return any(
        isinstance(found, cst.Name) and is_named(found, "None")
        for arg in call.args[1:]
        for found in descendants(arg.value)
        if isinstance(arg.value, (cst.List, cst.Tuple))
    )
