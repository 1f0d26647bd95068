"""## What it does
Reports `torch.nn.DataParallel`.

## Why it matters
It drives several devices from one process, which torch_npu does not support well; on one device it
only adds a copy and the `module.` prefix to checkpoint keys.

## Example
```python
model = torch.nn.DataParallel(model).cuda()
```

## Use instead
```python
model = torch.nn.parallel.DistributedDataParallel(model.npu(), device_ids=[rank])
```

## Fix safety
No fix: one process a device needs a launcher, a sampler and rank-0 guards.

## References
- https://pytorch.org/docs/stable/generated/torch.nn.DataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.findings import Severity
from jumar.migrate.edits import Proposal
from jumar.migrate.rules.context import Context, uses_of
from jumar.rules import Rule

RULE = Rule(
    code="JM113",
    name="data-parallel",
    summary="torch.nn.DataParallel is used.",
    severity=Severity.WARNING,
    doc=__doc__,
)

_NAMES = ("torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "torch.nn.parallel.data_parallel.DataParallel")


def check(context: Context) -> Iterator[Proposal]:
    """Report every call of DataParallel."""
    for reference in uses_of(context.source, *_NAMES):
        if reference.call is not None:
            yield Proposal(
                rule=RULE,
                span=context.source.span(reference.node),
                message="DataParallel drives several devices from one process, which NPUs do not support well.",
                action="Run one process a device with torchrun and DistributedDataParallel, or use one device.",
            )
