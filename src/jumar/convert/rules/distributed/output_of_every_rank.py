"""## What it does
With `distributed`, lets rank 0 alone save, copy and delete files, make folders, write event files, log to
services and show progress bars; the arguments are still evaluated on every rank. Rank 0 also prints and logs
for all (its standard output is the only one). What downloads or fills a cache runs on the first rank of
each machine before the others; what reads a file that rank 0 saved waits for rank 0.

## Why it matters
Ranks that write one file at once leave a broken one, and ranks that download at once a broken data set.

## Example
```python
train_set = CIFAR10(root, download=True)
torch.save(model.state_dict(), path)
```

## Use instead
```python
train_set = rank0_first(CIFAR10)(root, download=True)
rank0_only(torch.save)(model.state_dict(), path)
```

## Fix safety
Safe. Calls whose result is used are left and reported; other files of the project are JM184's.

## References
- https://pytorch.org/docs/stable/distributed.html#torch.distributed.barrier
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.distributed.program.plan import proposals
from jumar.convert.rules.subject.context import Context

RULE = Rule(
    code="JM179",
    name="output-of-every-rank",
    summary="Every rank would write, show or fetch the same.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose rank 0 for what is done once."""
    yield from proposals(context, RULE, "outputs")
