"""## What it does
Reports that the entry script given with `distributed -m` uses several devices by itself (a process group,
DistributedDataParallel, processes it spawns, a framework that does), and leaves it as it is for that.

## Why it matters
A second process group or a second wrapper around the model fails, or averages twice.

## Example
```python
dist.init_process_group('nccl')
model = DistributedDataParallel(model, device_ids=[rank])
```

## Use instead
The same; convert without `distributed`, which renames devices and back end, and start it with torchrun or
as its own documentation says.

## Fix safety
No fix is needed.

## References
- https://pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.distributed.program.plan import plan_of
from jumar.convert.rules.subject.context import Context

RULE = Rule(
    code="JM182",
    name="already-distributed",
    summary="The entry script uses several devices already.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(context: Context) -> Iterator[Proposal]:
    """Report what shows that the script is distributed."""
    plan = plan_of(context)
    if plan is None or plan.already is None or plan.already.node is None:
        return
    yield Proposal(
        rule=RULE,
        span=_before(context.source.span(plan.already.node)),
        message=f"The script was not changed for several devices: {plan.already.reason}.",
        action="Start it as it is meant to be started; run_distributed_npu.sh does so with torchrun.",
    )


def _before(span: tuple[int, int]) -> tuple[int, int]:
    """Return the place of a span without claiming it: other rules convert what stands there."""
    return span[0], span[0]
