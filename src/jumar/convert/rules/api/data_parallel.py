"""## What it does
Reports `torch.nn.DataParallel`.

## Why it matters
It drives several devices from one process, which the vendor lists as unsupported; on one device it
only adds a wrapper and the `module.` prefix to checkpoint keys.

## Example
```python
model = torch.nn.DataParallel(model).cuda()
```

## Use instead
```python
model = torch.nn.parallel.DistributedDataParallel(model.npu(), device_ids=[rank])
```

## Fix safety
No fix here: one process a device needs a launcher, a sampler and rank-0 guards. With similar interfaces allowed
(`-sim`), JM147 takes the wrapper away where nothing else depends on it: the model then runs on one device.

## References
- https://pytorch.org/docs/stable/generated/torch.nn.DataParallel.html
- Ascend/pytorch `docs/zh/api/native_api/pytorch_2-13-0/torch-nn.md`
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context, uses_of
from jumar.convert.syntax.source import Reference

RULE = Rule(
    code="JM113",
    name="data-parallel",
    summary="torch.nn.DataParallel is used.",
    severity=Severity.WARNING,
    doc=__doc__,
)


_NAMES = (
    "torch.nn.DataParallel",
    "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.data_parallel.DataParallel",
    "torch.nn.parallel.data_parallel",
)


def find(context: Context) -> Iterator[Proposal]:
    """Report every call of DataParallel."""
    for reference in uses_of(context.source, *_NAMES):
        if context.covered(context.source.span(reference.node)):
            continue
        if reference.call is not None or _is_base(context, reference):
            yield Proposal(
                rule=RULE,
                span=context.source.span(reference.node),
                message="DataParallel drives several devices from one process, which NPUs do not support.",
                action="Run one process a device with torchrun and DistributedDataParallel, or use one device.",
            )


def _is_base(context: Context, reference: Reference) -> bool:
    """Tell whether a class derives from it."""
    parent = context.source.parent(reference.node)
    return isinstance(parent, cst.Arg) and isinstance(context.source.parent(parent), cst.ClassDef)
