"""JM406 host-synchronisation.

## What it does
Counts, by source line, the calls that make the host wait for the device: reading a number
(`.item()`, `float(loss)`, `if tensor:`), operators whose output size depends on the data (`nonzero`,
`masked_select`, indexing with a bool mask, `unique`), and blocking copies to the host.

## Why it matters
The host normally runs ahead and keeps the device's queue full. At such a call it waits until the queue is
empty; afterwards the device waits for the host. One in every layer serialises the whole step.

## Example
```python
total += loss.item()
```

## Use instead
```python
total += loss.detach()          # on the device; read it every 100 steps
```

## Fix safety
No edit is made: when the number is read may matter to the program.

## References
PyTorch documentation, "CUDA semantics: asynchronous execution" (the same holds for the NPU). In a run on
the CPU there is no copy to the host to be seen, and a number read by the optimizer may be one that
lives on the host anyway (Adam's step counter): both are listed as not checked.
"""

from __future__ import annotations

from typing import Literal

from jumar.findings import Severity
from jumar.performance.checker import Checker, Priced, Result
from jumar.performance.cost import Cost
from jumar.performance.operators import READS_TO_HOST, argument
from jumar.performance.subject import Call, StepView, Subject, Totals
from jumar.performance.tally import Tally, number_text, per_step, rate_text
from jumar.rules import Rule

RULE = Rule(
    code="JM406",
    name="host-synchronisation",
    summary="The host waits for the device inside a step.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

SIZE_FROM_DATA = frozenset(
    {"nonzero", "nonzero_numpy", "argwhere", "masked_select", "unique_dim", "unique_consecutive", "_unique", "_unique2"}
    | {"bincount"}
)
MASKED = frozenset({"index", "index_put", "index_put_", "_index_put_impl_"})

Kind = Literal["reads a number", "needs a size that depends on the data", "copies to the host"]

ACTIONS: dict[Kind, str] = {
    "reads a number": "Keep the value on the device (`.detach()`) and read it every N steps, or after the epoch.",
    "needs a size that depends on the data": "Use a form of fixed size: `torch.where`, multiplication by the mask, "
    "`topk` with a fixed k.",
    "copies to the host": "Copy once after the step, or with `non_blocking=True` into pinned memory.",
}


class HostSynchronisation(Checker):
    """Tallies synchronising calls by source line and kind."""

    rule = RULE

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._tallies: dict[tuple[str, Kind], Tally] = {}
        self._num_optimizer_reads = 0

    def observe(self, step: StepView) -> None:
        """Tally the step's synchronising calls."""
        for call in step.calls:
            kind = self._kind(call)
            if kind is None:
                continue
            if not self.subject.accelerator and call.row.phase == "optimizer" and kind == "reads a number":
                self._num_optimizer_reads += 1
                continue
            self._tallies.setdefault((call.row.source, kind), Tally()).add(call, step.step)

    def _kind(self, call: Call) -> Kind | None:
        row = call.row
        if call.prepares_data and not self.subject.accelerator:
            return None
        if not any(self.subject.is_on_device(tensor) for tensor in row.inputs):
            return None
        if call.base in READS_TO_HOST:
            return "reads a number"
        if call.base in SIZE_FROM_DATA or (call.base == "repeat_interleave" and "Tensor" in row.name):
            return "needs a size that depends on the data"
        if call.base in MASKED and any(tensor.dtype in {"bool", "uint8"} for tensor in row.inputs[1:]):
            return "needs a size that depends on the data"
        return "copies to the host" if self._is_blocking_copy(call) else None

    def _is_blocking_copy(self, call: Call) -> bool:
        row = call.row
        if not self.subject.accelerator or call.base not in {"_to_copy", "copy_", "_copy_from"}:
            return False
        source = row.inputs[0] if call.base == "_to_copy" else row.inputs[-1]
        target = row.outputs[0] if call.base == "_to_copy" and row.outputs else row.inputs[0]
        to_host = self.subject.is_on_device(source) and target.device.startswith("cpu")
        return to_host and not argument(row, "non_blocking")

    def result(self, totals: Totals) -> Result:
        """Return one finding a source line and kind."""
        findings = tuple(self._finding(*key, tally, totals) for key, tally in self._tallies.items())
        return Result(findings=findings, not_checked=self._gaps())

    def _gaps(self) -> tuple[str, ...]:
        if self.subject.accelerator:
            return ()
        gaps = ["copies to the host cannot be seen in a run on the CPU; record on the NPU (`jumar run` emulates one)."]
        if self._num_optimizer_reads:
            gaps.append(
                f"{self._num_optimizer_reads} numbers read by the optimizer: in a run on the CPU they cannot be told "
                "from counters that live on the host anyway; record on the NPU."
            )
        return tuple(gaps)

    def _finding(self, source: str, kind: Kind, tally: Tally, totals: Totals) -> Priced:
        calls = per_step(tally.num_calls, totals)
        place = source or "A line that the recording does not name"
        operator = tally.operators.most_common(1)[0][0]
        finding = self.rule.finding(
            f"{place} makes the host wait for the device {rate_text(tally.num_calls, totals)}{tally.modules_text()}: "
            f"`{operator}` {kind}.",
            where=tally.where(),
            evidence={**tally.evidence(totals), "kind": kind},
            why=f"The host waits until the device's queue is empty: {number_text(calls)} times a step the device then "
            "waits for the host.",
            action=ACTIONS[kind],
            severity=None if calls >= 0.5 else Severity.INFO,
        )
        return Priced(finding, Cost(num_synchronisations=calls))
