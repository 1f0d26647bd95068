"""## What it does
Brings a plain training step to mixed precision in float16: the statements from the model's call to the
loss run under `torch.amp.autocast`, the loss is scaled, gradients are unscaled before they are clipped,
and the optimizer steps through a `GradScaler`, which is made behind the optimizer or, where the step
stands in a function of its own, once in the module. Scripts that have mixed precision already (torch.amp,
apex, accelerate, Lightning, DeepSpeed) are left alone; steps of another form (several backward passes,
closures, gradients the script reads itself, BCELoss) are reported with the reason.

Evaluation stays in float32.

## Why it matters
The matrix unit of an NPU computes in float16; the guide trains in mixed precision for speed and half the
memory. Without loss scaling small gradients become zero in float16.

## Example
```python
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x.cuda()), y.cuda())
    loss.backward()
    optimizer.step()
```

## Use instead
```python
model = Net().npu()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler('npu')
for x, y in loader:
    optimizer.zero_grad()
    with torch.amp.autocast('npu'):
        loss = criterion(model(x.npu()), y.npu())
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
```

## Fix safety
Unsafe: float16 gives other numbers than float32, and the scaler leaves out steps whose gradients overflow.

## References
- PyTorch network model porting and training guide: mixed precision; multi-device training, steps 11 to 14
- https://pytorch.org/docs/stable/notes/amp_examples.html
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
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
    code="JM154",
    name="training-without-loss-scale",
    summary="A training step runs in float32 throughout.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose autocast and a GradScaler for every plain training step."""
    if mixed.is_mixed(context.source):
        return
    scaler = ""
    for call in backward_calls(context.source):
        try:
            proposal = _scaled(context, call, scaler)
        except StepError as error:
            if has_optimizer_steps(context.source):
                yield _left(context, call, str(error))
            continue
        scaler = str(proposal.evidence["scaler"])
        yield proposal


def _scaled(context: Context, call: cst.Call, taken: str) -> Proposal:
    """Return the proposal for one step. Raises StepError where it has another form."""
    source = context.source
    step = training_step(source, call)
    torch = torch_name(source, call)
    if torch is None:
        raise StepError("torch is not imported under a name here")
    if taken:
        raise StepError("another step of this file has the scaler")
    scaler = mixed.scaler_name(source)
    device = context.dialect.device_word(context.quote)
    making, needed = mixed.making(context, step, f"{scaler} = {torch}.amp.GradScaler({device})")
    if needed and torch_name(source, source.module) != torch:
        raise StepError("torch is not imported at the top of the module")
    forward = mixed.under_autocast(source, step, f"{torch}.amp.autocast({device})")
    if making and forward[0].start < making[0].start <= forward[-1].start:
        raise StepError("the optimizer is made within the forward pass")
    return Proposal(
        rule=RULE,
        span=source.span(call),
        message="This training step runs in float32; it runs in float16 with loss scaling now.",
        replacements=(
            *making,
            *forward,
            *mixed.scaled(source, step, scaler),
        ),
        safety="unsafe",
        requires=(*context.dialect.requires, *needed),
        evidence={"scaler": scaler, "made": "module" if needed else "step"},
        why="NPUs compute matrices in float16.",
    )


def _left(context: Context, call: cst.Call, reason: str) -> Proposal:
    return Proposal(
        rule=RULE,
        span=context.source.span(call),
        message=f"This training step was not brought to mixed precision: {reason}.",
        action="Put the forward pass under torch.amp.autocast and scale the loss by hand.",
        confidence="possible",
    )
