"""JM408 single-tensor-optimizer.

## What it does
Counts the operators of the optimizer phase that update one tensor at a time, when none of the multi-tensor
ones (`_foreach_*`, `_fused_*`) is used.

## Why it matters
An optimizer of k operations on n parameters starts k·n operators a step, most of them tiny. Measured with
AdamW on 300 parameters of 16 elements on a CPU: 7.45 ms one by one, 4.14 ms with foreach, 1.13 ms fused.

## Example
```python
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
```

## Use instead
Leave `foreach` out (PyTorch turns it on for accelerators), ask for `fused=True`, or use
`torch_npu.optim.NpuFusedAdamW`, which updates all parameters as one flat tensor.

## Fix safety
No edit is made. `foreach` gave bit-equal parameters after 50 AdamW steps, `fused` differed by 2.4e-7.

## References
Measured on 2 cores with PyTorch 2.13, one thread, least of 15 runs of 5 steps.
"""

from __future__ import annotations

from jumar.advise.bottlenecks.cost import Cost
from jumar.advise.bottlenecks.run import Run
from jumar.advise.bottlenecks.tally import Tally, number_text, per_step, percent_text, share
from jumar.advise.bottlenecks.tensors import is_first_argument
from jumar.advise.checks import Outcomes, not_checked
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.operators import has_any, is_in_place

RULE = Rule(
    code="JM408",
    name="single-tensor-optimizer",
    summary="The optimizer updates the parameters one by one.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

MIN_TENSORS = 4
"""With fewer tensors there is nothing to batch."""


def find(run: Run) -> Outcomes:
    """Yield one finding when the optimizer updates parameters one by one."""
    single = Tally()
    num_multi = num_tensors = 0
    for step in run.steps:
        written: set[int] = set()
        for call in step.calls:
            if call.row.phase != "optimizer" or not call.launched or not run.on_device(call):
                continue
            if has_any(call.row.name, "foreach", "optimizer") or call.base.startswith("_amp_foreach_"):
                num_multi += 1
                continue
            single.add(call, step.step)
            if is_in_place(call.row.name):
                written |= {item.storage for item in call.row.inputs if is_first_argument(item) and item.shape}
        num_tensors = max(num_tensors, len(written))
    if "optimizer" not in run.totals.phases:
        reason = "the recording has no optimizer phase; record a whole training step, optimizer included."
        yield not_checked(RULE, reason)
    elif not run.accelerator:
        reason = "PyTorch chooses multi-tensor optimizers only on accelerators, and this run was on the CPU."
        yield not_checked(RULE, reason)
    elif not num_multi and num_tensors >= MIN_TENSORS:
        yield _finding(run, single, num_tensors)


def _finding(run: Run, single: Tally, num_tensors: int) -> Finding:
    calls = per_step(single.num_calls, run.totals)
    finding = RULE.finding(
        f"The optimizer starts {number_text(calls)} operators a step to update {num_tensors} tensors one by "
        f"one, {percent_text(share(single.num_launches, run.totals.num_launches))} of all operators.",
        where=single.where(),
        evidence={**single.evidence(run.totals), "num_tensors": num_tensors},
        why="Each parameter costs several launches, most of them tiny.",
        action="Leave out `foreach=False`, pass `fused=True`, or use the optimizer of the same name in "
        "`torch_npu.optim` (NpuFusedSGD, NpuFusedAdamW, …).",
    )
    return run.priced(finding, Cost(num_launches=calls * (1 - 1 / num_tensors)))
