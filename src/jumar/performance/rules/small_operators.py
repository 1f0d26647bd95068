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

from jumar.findings import Severity
from jumar.performance.checker import Checker, Priced, Result
from jumar.performance.cost import Cost
from jumar.performance.operators import num_elements
from jumar.performance.subject import Call, StepView, Subject, Totals
from jumar.performance.tally import Tally, listing, number_text, per_step, percent_text, share
from jumar.rules import Rule

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


class SmallOperators(Checker):
    """Counts launches by the size of what they return."""

    rule = RULE

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._small = Tally()
        self._num_launches = 0
        self._num_outside = 0

    def observe(self, step: StepView) -> None:
        """Count the step's launches outside the optimizer."""
        for call in step.calls:
            if call.launched and call.row.phase != "optimizer" and self.subject.on_device(call):
                self._num_launches += 1
                if _largest(call) < SMALL_ELEMENTS:
                    self._small.add(call, step.step)
                    self._num_outside += not call.row.module_type

    def result(self, totals: Totals) -> Result:
        """Return one finding when small operators prevail."""
        small, part = per_step(self._small.num_calls, totals), share(self._small.num_calls, self._num_launches)
        if part < MIN_SHARE or small < MIN_PER_STEP:
            return Result()
        names = [f"`{name}`" for name, _ in self._small.operators.most_common(3)]
        lines = [
            f"{line} ({number_text(per_step(n, totals))})" for line, n in self._small.sources.most_common(3) if line
        ]
        finding = self.rule.finding(
            f"{number_text(small)} of {number_text(per_step(self._num_launches, totals))} operators a step outside "
            f"the optimizer ({percent_text(part)}) return fewer than {SMALL_ELEMENTS:,} elements, mostly "
            f"{listing(names)}" + (f", from {listing(lines)}." if lines else "."),
            where=self._small.where(),
            evidence={**self._small.evidence(totals), "small_percent": round(100 * part, 1), "limit": SMALL_ELEMENTS},
            why="Starting an operator costs the host the same whatever its size, so the NPU waits for the host.",
            action=self._action(),
            confidence="likely",
        )
        # Batching or fusing seldom removes all launches; half is taken as within reach.
        return Result(findings=(Priced(finding, Cost(num_launches=small / 2)),))

    def _action(self) -> str:
        if self._num_outside * 2 > self._small.num_calls:
            return (
                "Most of them run outside the model: treat all tensors at once (`torch._foreach_lerp_` for a moving "
                "average of weights, `torch._foreach_*` in general), or less often."
            )
        return "Train with a larger batch, work on whole sequences instead of looping, or compile the model."


def _largest(call: Call) -> int:
    tensors = call.row.outputs or call.row.inputs
    return max((num_elements(tensor.shape) for tensor in tensors), default=0)
