"""## What it does
Puts the forward pass of a plain training step under `torch.amp.autocast` with bfloat16, without loss
scaling. It is the choice beside `training-without-loss-scale`, which takes float16 and a scaler and goes
first where both are enabled. The same scripts are left alone, and the same forms reported.

## Why it matters
bfloat16 has the range of float32, so no gradient is lost and nothing has to be scaled; it has fewer digits
than float16. Ascend 910B and later compute in it, Ascend 910A does not.

## Example
```python
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
```

## Use instead
```python
for x, y in loader:
    optimizer.zero_grad()
    with torch.amp.autocast('npu', dtype=torch.bfloat16):
        loss = criterion(model(x.npu()), y.npu())
    loss.backward()
    optimizer.step()
```

## Fix safety
Unsafe: bfloat16 gives other numbers than float32.

## References
- https://pytorch.org/docs/stable/amp.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.manual import training_without_loss_scale as float16
from jumar.convert.rules.manual.program import mixed_precision as mixed
from jumar.convert.rules.manual.program.training_step import (
    StepError,
    backward_calls,
    has_optimizer_steps,
    training_step,
)
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.names import torch_name

RULE = Rule(
    code="JM155",
    name="training-without-autocast",
    summary="A training step runs in float32 where bfloat16 would do.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose bfloat16 autocast for every plain training step, unless float16 is asked for."""
    if mixed.is_mixed(context.source) or context.options.checks(float16.RULE):
        return
    for call in backward_calls(context.source):
        try:
            yield _cast(context, call)
        except StepError as error:
            if has_optimizer_steps(context.source):
                yield Proposal(
                    rule=RULE,
                    span=context.source.span(call),
                    message=f"This training step was not brought to bfloat16: {error}.",
                    action="Put the forward pass under torch.amp.autocast by hand.",
                    confidence="possible",
                )


def _cast(context: Context, call: cst.Call) -> Proposal:
    """Return the proposal for one step. Raises StepError where it has another form."""
    source = context.source
    step = training_step(source, call)
    torch = torch_name(source, call)
    if torch is None:
        raise StepError("torch is not imported under a name here")
    device = context.dialect.device_word(context.quote)
    return Proposal(
        rule=RULE,
        span=source.span(call),
        message="This training step runs in float32; its forward pass runs in bfloat16 now.",
        replacements=mixed.under_autocast(source, step, f"{torch}.amp.autocast({device}, dtype={torch}.bfloat16)"),
        safety="unsafe",
        requires=context.dialect.requires,
    )
