"""## What it does
With `distributed`, gives each rank its share of the training data: the DataLoader that feeds the backward
pass becomes `training_loader(...)` with the same arguments, which puts a DistributedSampler in the place of
`shuffle=` and draws another order in every epoch (`set_epoch`). Loaders that feed no backward pass stay
whole, so that the metric is that of one device, sample for sample. Loops over the training loader that do not
train, and step counts computed from the whole data set, are reported.

## Why it matters
Without a sampler every rank trains on the same batches. With one on the validation loader too (and
`drop_last`), samples are counted twice or not at all.

## Example
```python
loader = DataLoader(train_set, batch_size=64, shuffle=True)
```

## Use instead
```python
loader = training_loader(train_set, batch_size=64, shuffle=True)
```

## Fix safety
Safe. Where the data set does not divide by the number of ranks, DistributedSampler repeats up to one sample
a rank. A sampler of the script's own and an IterableDataset are reasons for JM181.

## References
- https://pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.distributed.program.plan import proposals
from jumar.convert.rules.subject.context import Context

RULE = Rule(
    code="JM176",
    name="unshared-training-data",
    summary="Every rank would train on the same batches.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose a sampler for every training loader."""
    yield from proposals(context, RULE, "loaders")
