"""## What it does
With `distributed`, makes every model that an optimizer updates parallel, after it is made, moved and loaded
and before its training starts: `model = parallel_model(model)`. That is DistributedDataParallel with the
model's own attributes, parameter names and state_dict keys, so that `model.fc`, custom methods and
checkpoints stay as they were. Functions that store or copy a whole model get the model itself. DataParallel
becomes parallel too, with the keys it has (`module.`). Batch normalisation, losses that are sums, and
gradient accumulation get advice.

## Why it matters
Gradients that are not averaged let the ranks train different models. Keys with `module.` are what makes
"load state_dict" fail later.

## Example
```python
model = Net().to(device)
optimizer = SGD(model.parameters(), lr=0.1)
for epoch in range(epochs):
    train(model, loader, optimizer)
```

## Use instead
```python
model = Net().to(device)
optimizer = SGD(model.parameters(), lr=0.1)
model = parallel_model(model)
for epoch in range(epochs):
    train(model, loader, optimizer)
```

## Fix safety
Safe. A method or a part of the model that computes what is trained (`model.encode(x)`) would go past the
averaging, so it is a reason for JM181.

## References
- https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.distributed.program.plan import proposals
from jumar.convert.rules.subject.context import Context

RULE = Rule(
    code="JM177",
    name="unaveraged-gradients",
    summary="A model's gradients would be those of one rank.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose parallel models."""
    yield from proposals(context, RULE, "models")
