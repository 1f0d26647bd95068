"""## What it does
Adds `drop_last=True` to the DataLoader that feeds *training*, and to no other. What a loader is for is
told from its name, its dataset's name and arguments (`train=True`, `split='train'`) and the loop it
feeds: one that goes backward trains, one under `torch.no_grad()` or after `.eval()` evaluates. All signs
must agree; otherwise the loader is reported and left.

## Why it matters
The last batch of an epoch is smaller than the others. A new shape makes an NPU compile its operators
once more, and batch statistics of a handful of samples are poor. The migration guide sets `drop_last=True`
on validation too; that changes the number of samples a metric is computed on, so this rule does not.

## Example
```python
train_loader = torch.utils.data.DataLoader(train_set.cuda(), batch_size=64, shuffle=True)
```

## Use instead
```python
train_loader = torch.utils.data.DataLoader(train_set.npu(), batch_size=64, shuffle=True, drop_last=True)
```

## Fix safety
Unsafe: an epoch leaves out up to batch_size - 1 samples (other ones each epoch with shuffling), and a
dataset smaller than one batch gives no batch at all.

## References
- PyTorch network model porting and training guide: single-server multi-device training, step 10
- https://pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.manual.program.loaders import Loader, is_literal, is_off, loaders, option, switched_on
from jumar.convert.rules.subject.context import Context

RULE = Rule(
    code="JM151",
    name="loader-keeps-partial-batch",
    summary="A training DataLoader ends each epoch with a batch of another shape.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose drop_last=True for training loaders; report those whose use cannot be told."""
    source = context.source
    for loader in loaders(context):
        given = option(source, loader.call, "drop_last")
        fixed = option(source, loader.call, "batch_sampler")
        if loader.purpose == "evaluate" or not is_off(given):
            continue
        if is_literal(option(source, loader.call, "batch_size"), "None"):
            continue
        if fixed is not False and not is_literal(fixed, "None"):
            yield _report(context, loader, "Its batches come from a batch_sampler.", "Let the batch_sampler drop it.")
        elif loader.purpose == "unknown":
            yield _report(
                context, loader, "Whether it trains cannot be told.", "Add drop_last=True if it feeds training."
            )
        else:
            yield _edit(context, loader, given)


def _report(context: Context, loader: Loader, message: str, action: str) -> Proposal:
    return Proposal(
        rule=RULE,
        span=context.source.span(loader.call.func),
        message=f"This DataLoader keeps its last, smaller batch. {message}",
        action=action,
        confidence="possible",
        evidence={"signs": list(loader.evidence)},
    )


def _edit(context: Context, loader: Loader, given: cst.BaseExpression | bool | None) -> Proposal:
    source = context.source
    return Proposal(
        rule=RULE,
        span=source.span(loader.call.func),
        message="This training DataLoader keeps its last, smaller batch.",
        replacements=(switched_on(source, loader.call, "drop_last", given),),
        safety="unsafe",
        why="Another shape is compiled again on an NPU.",
        evidence={"signs": list(loader.evidence)},
    )
