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

from jumar.findings import Severity
from jumar.performance.checker import Checker, Priced, Result, unable
from jumar.performance.cost import Cost
from jumar.performance.operators import COPIES, is_in_place, tensor_key
from jumar.performance.subject import Call, StepView, Subject, Totals
from jumar.performance.tally import Tally, bytes_text, per_step, rate_text
from jumar.rules import Rule

RULE = Rule(
    code="JM411",
    name="repeated-computation",
    summary="An operator is called again on the same unchanged tensors.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

FILLS = frozenset({"zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"})
RANDOM_PARTS = ("rand", "dropout", "bernoulli", "multinomial", "normal", "uniform", "exponential", "poisson", "rrelu")
DETERMINISTIC = ("norm", "layer_norm")


class RepeatedComputation(Checker):
    """Tallies calls whose result an earlier call of the same phase had."""

    rule = RULE

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._tallies: dict[tuple[str, str, str], Tally] = {}

    def observe(self, step: StepView) -> None:
        """Tally the step's repeated calls."""
        done: set[object] = set()
        for call in step.calls:
            if not _is_candidate(call) or not self.subject.on_device(call):
                continue
            row = call.row
            tensors = tuple(map(tensor_key, row.inputs))
            identity = (row.phase, row.name, row.arguments, row.autocast, tensors, call.versions)
            if identity in done:
                self._tallies.setdefault((row.name, row.source, row.phase), Tally()).add(call, step.step)
            done.add(identity)

    def result(self, totals: Totals) -> Result:
        """Return one finding an operator, line and phase."""
        if not totals.has_storages:
            return unable("the recording does not say which tensors share memory, so equal inputs cannot be told.")
        return Result(findings=tuple(self._finding(*key, tally, totals) for key, tally in self._tallies.items()))

    def _finding(self, name: str, source: str, phase: str, tally: Tally, totals: Totals) -> Priced:
        calls, moved = per_step(tally.num_calls, totals), per_step(tally.bytes_moved, totals)
        at = f" at {source}" if source else ""
        finding = self.rule.finding(
            f"`{name}`{at} computes in the {phase} what it already did from the same tensors, "
            f"{rate_text(tally.num_calls, totals)}{tally.modules_text()}: {bytes_text(moved)}.",
            where=tally.where(),
            evidence=tally.evidence(totals),
            why="The inputs were not written in between, so the result is the same.",
            action="Compute it once a step and hand it on, or keep it as a buffer if it never changes.",
            severity=None if tally.is_material(totals) else Severity.INFO,
        )
        return Priced(finding, Cost(memory_bytes=moved, num_launches=calls))


def _is_candidate(call: Call) -> bool:
    row = call.row
    if not call.launched or not row.inputs or not row.outputs or is_in_place(row.name):
        return False
    if call.base in COPIES or call.base in FILLS or "out" in row.name.rpartition(".")[2]:
        return False
    return not _is_random(call.base)


def _is_random(base: str) -> bool:
    """Return whether an operator draws random numbers; `native_layer_norm` is not a `normal`."""
    plain = base
    for word in DETERMINISTIC:
        plain = plain.replace(word, "") if not plain.startswith("normal") else plain
    return any(part in plain for part in RANDOM_PARTS) or "scaled_dot_product" in plain
