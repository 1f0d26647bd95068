"""## What it does
With `distributed`, makes the ranks agree on values computed from one rank's batches: what a training function
returns becomes the mean over the ranks, a sum that is divided by the number of all samples the sum over the
ranks, what a plateau scheduler looks at the mean, and a test that ends or skips something (`if
isnan(loss): break`) is taken by all ranks if it holds on one.

## Why it matters
A rank that leaves a loop alone lets the others wait for ever. Learning rates that follow different losses let
the models part, and a sum over one share divided by all samples is too small.

## Example
```python
return total_loss / len(loader.dataset)
```

## Use instead
```python
return mean_over_ranks(sum_over_ranks(total_loss) / len(loader.dataset))
```

## Fix safety
Safe. What rank 0 prints during an epoch is still of its own batches. A backward pass that only some ranks
would run is a reason for JM181.

## References
- https://pytorch.org/docs/stable/distributed.html#torch.distributed.all_reduce
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.distributed.program.plan import proposals
from jumar.convert.rules.subject.context import Context

RULE = Rule(
    code="JM180",
    name="value-of-one-rank",
    summary="A value that decides something would differ from rank to rank.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose values and decisions of all ranks."""
    yield from proposals(context, RULE, "decisions")
