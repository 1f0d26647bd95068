"""## What it does
Reports why the entry script given with `distributed -m` was left for one device. Nothing of it is changed for
several devices then; it is still converted to the target.

## Why it matters
A script that is converted in part trains, and trains wrongly: each rank by itself, on the same data, or
with a metric over a part of it.

## Example
```python
loss = model.training_step(batch)   # goes past what averages gradients
loss.backward()
```

## Use instead
```python
loss = model(batch)
loss.backward()
```

## Fix safety
No fix: the message says what cannot be followed.

## References
- https://pytorch.org/tutorials/intermediate/ddp_tutorial.html
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.distributed.program.plan import plan_of
from jumar.convert.rules.subject.context import Context

RULE = Rule(
    code="JM181",
    name="not-distributable",
    summary="The entry script stays on one device.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(context: Context) -> Iterator[Proposal]:
    """Report why the entry script has no plan."""
    plan = plan_of(context)
    if plan is None or plan.refusal is None:
        return
    refusal = plan.refusal
    yield Proposal(
        rule=RULE,
        span=context.source.span(refusal.node) if refusal.node is not None else (0, 0),
        message=f"The script stays on one device: {refusal.reason}.",
        action=refusal.action or "Change that place by hand, and convert again.",
    )
