"""## What it does
Finds arithmetic with the number of devices: `args.batch_size // torch.cuda.device_count()`,
`rank % ngpus_per_node`, `range(torch.cuda.device_count())` of process launchers. Once a file.

## Why it matters
The count is of visible devices. An NPU machine has another number of them (often 8 or 16), one card may show as
two, and a batch divided by the count changes its global size: learning rates and schedules go with it.

## Example
```python
ngpus_per_node = torch.cuda.device_count()
args.batch_size = int(args.batch_size / ngpus_per_node)
```

## Use instead
```python
args.batch_size = int(args.batch_size / int(os.environ['LOCAL_WORLD_SIZE']))
```

## Fix safety
No fix: the arithmetic stays right; its result changes with the machine.

## References
- https://pytorch.org/docs/stable/elastic/run.html (LOCAL_WORLD_SIZE)
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.model.spans import Span
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.places import distinct, summary
from jumar.convert.syntax.devices import target_names
from jumar.convert.syntax.scopes import last_name
from jumar.convert.syntax.source import Source

RULE = Rule(
    code="JM141",
    name="device-count-arithmetic",
    summary="Something is computed from the number of devices.",
    severity=Severity.INFO,
    doc=__doc__,
)


_COUNT = "torch.cuda.device_count"
_ARITHMETIC = (cst.Multiply, cst.Divide, cst.FloorDivide, cst.Modulo)


def find(context: Context) -> Iterator[Proposal]:
    """Report products, quotients and remainders with the device count, or with a name that holds it."""
    source = context.source
    counts = [ref.call for ref in distinct(source.references) if ref.name == _COUNT and ref.call is not None]
    if not counts:
        return
    names = {name for call in counts for name in _names(source, call)}
    spans = [
        source.span(node)
        for node in source.nodes(cst.BinaryOperation)
        if isinstance(node.operator, _ARITHMETIC)
        and any(_is_count(side, counts, names) for side in (node.left, node.right))
    ]
    yield from summary(
        source, RULE, _outermost(spans), "The number of devices is computed with", severity=Severity.INFO,
        action="Check batch sizes and ranks for the number of NPUs on the machine.",
    )  # fmt: skip


def _names(source: Source, call: cst.Call) -> Iterator[str]:
    """Yield the names and attributes that hold the count."""
    node: cst.CSTNode = call
    parent = source.parent(node)
    while isinstance(parent, (cst.IfExp, cst.BooleanOperation)):
        node, parent = parent, source.parent(parent)
    if isinstance(parent, cst.Assign):
        yield from target_names(source, parent)


def _is_count(node: cst.BaseExpression, counts: list[cst.Call], names: set[str]) -> bool:
    if node in counts:
        return True
    name = last_name(node)
    return name in names


def _outermost(spans: list[Span]) -> list[Span]:
    return [span for span in spans if not any(o[0] <= span[0] and span[1] <= o[1] and o != span for o in spans)]
