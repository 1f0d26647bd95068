"""## What it does
Sets `pin_memory=True` for the DataLoaders of a file that moves data to an accelerator. A loader whose
option is computed is left. One that loads in the training process itself (`num_workers` 0 or not given)
is reported as well: how many workers there should be depends on the machine.

The migration guide sets `pin_memory=False`, because PyTorch 1.5 pinned memory through CUDA and failed
without it; in another place it keeps True. Since torch_npu pins memory for the NPU, the vendor's advice
list asks for True, and so does this rule.

## Why it matters
Only from pinned memory is a copy to the device asynchronous (`non_blocking=True`); from pageable memory
the host waits for each batch.

## Example
```python
loader = torch.utils.data.DataLoader(dataset, batch_size=64, num_workers=8)
for x, y in loader:
    x, y = x.cuda(), y.cuda()
```

## Use instead
```python
loader = torch.utils.data.DataLoader(dataset, batch_size=64, num_workers=8, pin_memory=True)
for x, y in loader:
    x, y = x.npu(), y.npu()
```

## Fix safety
Unsafe: the batches are the same, and the host's memory they take cannot be paged out.

## References
- PyTorch network model porting and training guide: multi-device training, step 10, and its short sample
- https://pytorch.org/docs/stable/data.html#memory-pinning
- Advice lists of the vendor's script conversion tool (msfmktransplt): DataLoader pin_memory, num_workers
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.manual.program.loaders import is_literal, is_off, loaders, option, switched_on
from jumar.convert.rules.subject.context import Context

RULE = Rule(
    code="JM152",
    name="loader-does-not-pin",
    summary="A DataLoader leaves its batches in pageable memory.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose pinned memory for loaders, and report those without workers."""
    source = context.source
    for loader in loaders(context):
        pinned = option(source, loader.call, "pin_memory")
        if is_off(pinned):
            yield Proposal(
                rule=RULE,
                span=source.span(loader.call.func),
                message="The batches of this DataLoader are in pageable memory.",
                replacements=(switched_on(source, loader.call, "pin_memory", pinned),),
                safety="unsafe",
            )
        workers = option(source, loader.call, "num_workers")
        if workers is False or is_literal(workers, "0"):
            yield Proposal(
                rule=RULE,
                span=source.span(loader.call.func),
                message="This DataLoader loads in the training process itself.",
                action="Give it num_workers, about the cores of the host divided by its devices.",
            )
