"""JM412 copy-to-device-in-module.

## What it does
Finds copies from the host to the device that happen inside a module's forward: a tensor built on the CPU
in each step (an index, a mask, a position table) and sent over the bus, by source line, with bytes.

## Why it matters
A tensor that is the same in every step needs to cross the bus once. Each copy inside the forward makes the
device wait. The vendor's ShuffleNetV2 case went from 5,500 to 4,000 ms a step by keeping its shuffle index
on the device.

## Example
```python
def forward(self, x):
    index = torch.arange(self.channels)[self.order].to(x.device)
    return x[:, index]
```

## Use instead
```python
def __init__(self):
    self.register_buffer("index", torch.arange(channels)[order])
```
Or create it on the device: `torch.arange(n, device=x.device)`.

## Fix safety
No edit is made.

## References
The vendor's ShuffleNet tuning example ("keep the index as a buffer on the NPU"). Needs a run on an
accelerator, real or emulated: on the CPU nothing is copied.
"""

from __future__ import annotations

from jumar.findings import Severity
from jumar.performance.checker import Checker, Priced, Result, unable
from jumar.performance.cost import Cost
from jumar.performance.operators import size_bytes
from jumar.performance.subject import Call, StepView, Subject, Totals
from jumar.performance.tally import Tally, bytes_text, per_step, rate_text
from jumar.recording.schema import TensorRow
from jumar.rules import Rule

RULE = Rule(
    code="JM412",
    name="copy-to-device-in-module",
    summary="A module copies a tensor from the host to the device in its forward.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


class CopyToDeviceInModule(Checker):
    """Tallies copies to the device inside modules by source line."""

    rule = RULE

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._tallies: dict[tuple[str, str], Tally] = {}

    def observe(self, step: StepView) -> None:
        """Tally the step's copies."""
        if not self.subject.accelerator:
            return
        for call in step.calls:
            if call.row.module_type and call.row.phase == "forward":
                copied = self._copied(call)
                if copied is not None:
                    tally = self._tallies.setdefault((call.row.source, call.row.name), Tally())
                    tally.add(call, step.step, bytes_moved=size_bytes(copied))

    def _copied(self, call: Call) -> TensorRow | None:
        """Return the host tensor that `call` sends to the device, or None."""
        row = call.row
        if call.base == "_to_copy" and row.inputs and row.outputs:
            source, target = row.inputs[0], row.outputs[0]
        elif call.base in {"copy_", "_copy_from"} and len(row.inputs) > 1:
            target, source = row.inputs[0], row.inputs[1]
        else:
            return None
        return source if not self.subject.is_on_device(source) and self.subject.is_on_device(target) else None

    def result(self, totals: Totals) -> Result:
        """Return one finding a source line."""
        if not self.subject.accelerator:
            return unable("copies to the device cannot be seen in a run on the CPU; record on the NPU.")
        findings = tuple(self._finding(source, name, tally, totals) for (source, name), tally in self._tallies.items())
        return Result(findings=findings)

    def _finding(self, source: str, name: str, tally: Tally, totals: Totals) -> Priced:
        calls, moved = per_step(tally.num_calls, totals), per_step(tally.bytes_moved, totals)
        at = f" at {source}" if source else ""
        finding = self.rule.finding(
            f"`{name}`{at} copies a tensor from the host to the device {rate_text(tally.num_calls, totals)}"
            f"{tally.modules_text()}: {bytes_text(moved)} over the bus.",
            where=tally.where(),
            evidence={**tally.evidence(totals), "bus_bytes_per_step": moved},
            why="The device waits for the copy, in every step.",
            action="Keep the tensor as a buffer (`register_buffer`), or create it on the device (`device=x.device`).",
            severity=None if calls >= 0.5 else Severity.INFO,
        )
        return Priced(finding, Cost(bus_bytes=moved, num_synchronisations=calls))
