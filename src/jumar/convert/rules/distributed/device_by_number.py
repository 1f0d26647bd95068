"""## What it does
With `distributed`, replaces fixed device numbers in the entry script by this rank's own: in literals
(`'cuda:0'`), in names that are put together (`f'cuda:{gpu}'`), in `.cuda(gpu)` and `set_device(gpu)`. A script
that hides devices by itself (`CUDA_VISIBLE_DEVICES`) does so only when torchrun did not start it.

## Why it matters
With a fixed number all ranks compute on one device, or the collectives fail.

## Example
```python
device = torch.device('cuda:0')
```

## Use instead
```python
device = torch.device(LOCAL_DEVICE)
```

## Fix safety
Safe: without torchrun the number is the script's own. Two different numbers in one script look like a model
spread over devices and are a reason for JM181.

## References
- https://pytorch.org/docs/stable/elastic/run.html#environment-variables
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.distributed.program.plan import proposals
from jumar.convert.rules.subject.context import Context

RULE = Rule(
    code="JM178",
    name="device-by-number",
    summary="A device is named by a fixed number.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose this rank's device."""
    yield from proposals(context, RULE, "numbers")
