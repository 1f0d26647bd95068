"""JM411 repeated-computation.

## What it does
Finds operators called again in the same phase of a step with the same arguments on the same tensors,
none of which was written in between: the result was already there.

## Why it matters
The second call returns what the first did. It is typical of a mask, a position table or a
normalised weight that every layer computes for itself.

## Example
```python
for layer in self.layers:
    x = layer(x, attention_mask.logical_not())
```

## Use instead
```python
blocked = attention_mask.logical_not()
for layer in self.layers:
    x = layer(x, blocked)
```

## Fix safety
No edit is made: keeping a result keeps its memory.

## References
Random operators, copies, fills and operators that write their input are left out, as is the second forward
of activation checkpointing, which runs in the backward phase on purpose. Repeated casts are JM404.
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.advise.bottlenecks.cost import Cost
from jumar.advise.bottlenecks.run import Call, Run, StepView
from jumar.advise.bottlenecks.tally import Tally, at_text, per_step, rate_text
from jumar.advise.bottlenecks.tensors import arguments, tensor_key
from jumar.advise.checks import Outcomes, not_checked
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import size_text
from jumar.operators import draws, has, is_in_place

RULE = Rule(
    code="JM411",
    name="repeated-computation",
    summary="An operator is called again on the same unchanged tensors.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

Place = tuple[str, str, str]
"""Operator, source line, phase."""


def find(run: Run) -> Outcomes:
    """Yield one finding for each operator, line and phase that repeats a computation."""
    tallies: dict[Place, Tally] = {}
    for step in run.steps:
        for call in _repeated(run, step):
            place: Place = (call.row.name, call.row.source, call.row.phase)
            tallies.setdefault(place, Tally()).add(call, step.step)
    if not run.totals.has_storages:
        reason = "the recording does not say which tensors share memory, so equal inputs cannot be recognised."
        yield not_checked(RULE, reason)
        return
    for place, tally in tallies.items():
        yield _finding(run, place, tally)


def _repeated(run: Run, step: StepView) -> Iterator[Call]:
    done: set[object] = set()
    for call in step.calls:
        if not _is_candidate(call) or not run.on_device(call):
            continue
        row = call.row
        tensors = tuple(map(tensor_key, row.inputs))
        identity = (row.phase, row.name, row.arguments, row.autocast, tensors, call.versions)
        if identity in done:
            yield call
        done.add(identity)


def _finding(run: Run, place: Place, tally: Tally) -> Finding:
    name, source, phase = place
    calls, moved = per_step(tally.num_calls, run.totals), per_step(tally.bytes_moved, run.totals)
    finding = RULE.finding(
        f"`{name}`{at_text(source)} computes in the {phase} the same result again from the same tensors, "
        f"{rate_text(tally.num_calls, run.totals)}{tally.modules_text()}: {size_text(moved)}.",
        where=tally.where(),
        evidence=tally.evidence(run.totals),
        why="The inputs were not written in between, so the result is the same.",
        action="Compute it once a step and hand it on, or keep it as a buffer if it never changes.",
        severity=None if tally.is_material(run.totals) else Severity.INFO,
    )
    return run.priced(finding, Cost(memory_bytes=moved, num_launches=calls))


def _is_candidate(call: Call) -> bool:
    row = call.row
    if not call.launched or not row.inputs or not row.outputs or is_in_place(row.name):
        return False
    fills = has(row.name, "fill") and has(row.name, "like")
    if fills or has(row.name, "copies") or has(row.name, "out"):
        return False
    return not (draws(row.name, arguments(row)) if row.draws is None else row.draws)
