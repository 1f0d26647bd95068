"""JM407 small-operators.

## What it does
Counts the operators of forward and backward that return fewer than 4,096 elements, and reports when they
are half of a step's launches or more, with the modules and lines that start most of them.

## Why it matters
Starting an operator costs the host some microseconds whatever its size. An Ascend 910A has 32 cores of
128 float16 lanes: below 4,096 elements not even one instruction on each core is filled. A step made of such
operators is bound by the host, and a faster NPU does not make it faster.

## Example
```python
for token in range(length):
    hidden = cell(inputs[:, token], hidden)
```

## Use instead
Larger batches, one call over the whole sequence (`nn.LSTM` in place of `nn.LSTMCell` in a loop), fused
operators, `torch.compile`.

## Fix safety
No edit is made.

## References
Cores and lanes from CANN's platform configuration of the Ascend 910A. The optimizer has a rule of its
own, JM408. A toy model is always made of small operators; judge by the size you train.
"""

from __future__ import annotations

import math

from jumar.advise.bottlenecks.cost import Cost
from jumar.advise.bottlenecks.run import Call, Run
from jumar.advise.bottlenecks.tally import Tally, number_text, per_step, percent_text, share
from jumar.advise.checks import Outcomes
from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.base.text import listing

RULE = Rule(
    code="JM407",
    name="small-operators",
    summary="Most of a step's operators are too small to fill the NPU, so the host is the limit.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

SMALL_ELEMENTS = 4096
MIN_SHARE = 0.5
MIN_PER_STEP = 50
"""With fewer small operators a step their launches together stay under a millisecond."""


def find(run: Run) -> Outcomes:
    """Yield one finding when most launches outside the optimizer return few elements."""
    tally = Tally()
    num_launches = num_outside = 0
    for step in run.steps:
        for call in step.calls:
            if call.launched and call.row.phase != "optimizer" and run.on_device(call):
                num_launches += 1
                if _largest(call) < SMALL_ELEMENTS:
                    tally.add(call, step.step)
                    num_outside += not call.row.module_type
    small, part = per_step(tally.num_calls, run.totals), share(tally.num_calls, num_launches)
    if part < MIN_SHARE or small < MIN_PER_STEP:
        return
    finding = RULE.finding(
        f"{number_text(small)} of {number_text(per_step(num_launches, run.totals))} operators a step outside "
        f"the optimizer ({percent_text(part)}) return fewer than {SMALL_ELEMENTS:,} elements, {_mostly(tally, run)}.",
        where=tally.where(),
        evidence={**tally.evidence(run.totals), "small_percent": round(100 * part, 1), "limit": SMALL_ELEMENTS},
        why="Starting an operator costs the host the same whatever its size, so the NPU waits for the host.",
        action=_action(tally, num_outside),
        confidence="likely",
    )
    # Batching or fusing seldom removes all launches; half is taken as within reach.
    yield run.priced(finding, Cost(num_launches=small / 2))


def _mostly(tally: Tally, run: Run) -> str:
    names = listing(f"`{name}`" for name, _ in tally.operators.most_common(3))
    counts = [(line, per_step(count, run.totals)) for line, count in tally.sources.most_common(3) if line]
    lines = listing(f"{line} ({number_text(count)})" for line, count in counts)
    return f"mostly {names}, from {lines}" if lines else f"mostly {names}"


def _action(tally: Tally, num_outside: int) -> str:
    if num_outside * 2 > tally.num_calls:
        return (
            "Most of them run outside the model: treat all tensors at once (`torch._foreach_lerp_` for a moving "
            "average of weights, `torch._foreach_*` in general), or less often."
        )
    return "Train with a larger batch, work on whole sequences instead of looping, or compile the model."


def _largest(call: Call) -> int:
    tensors = call.row.outputs or call.row.inputs
    return max((math.prod(tensor.shape) for tensor in tensors), default=0)
