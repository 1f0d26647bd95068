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

from jumar.advise.bottlenecks.cost import Cost
from jumar.advise.bottlenecks.run import Call, Run
from jumar.advise.bottlenecks.tally import Tally, at_text, per_step, rate_text
from jumar.advise.bottlenecks.tensors import copy_of, size_bytes
from jumar.advise.checks import Outcomes, not_checked
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import size_text
from jumar.recording.schema import TensorRow

RULE = Rule(
    code="JM412",
    name="copy-to-device-in-module",
    summary="A module copies a tensor from the host to the device in its forward.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(run: Run) -> Outcomes:
    """Yield one finding for each source line that copies a tensor to the device inside a module."""
    if not run.accelerator:
        yield not_checked(RULE, "copies to the device cannot be seen in a run on the CPU; record on the NPU.")
        return
    tallies: dict[tuple[str, str], Tally] = {}
    for step in run.steps:
        for call in step.calls:
            copied = _copied(run, call) if call.row.module_type and call.row.phase == "forward" else None
            if copied is not None:
                tally = tallies.setdefault((call.row.source, call.row.name), Tally())
                tally.add(call, step.step, bytes_moved=size_bytes(copied))
    for (source, name), tally in tallies.items():
        yield _finding(run, source, name, tally)


def _copied(run: Run, call: Call) -> TensorRow | None:
    """Return the host tensor that `call` sends to the device, or None."""
    copy = copy_of(call.row)
    if copy is None or run.is_on_device(copy.source) or not run.is_on_device(copy.target):
        return None
    return copy.source


def _finding(run: Run, source: str, name: str, tally: Tally) -> Finding:
    calls, moved = per_step(tally.num_calls, run.totals), per_step(tally.bytes_moved, run.totals)
    finding = RULE.finding(
        f"`{name}`{at_text(source)} copies a tensor from the host to the device "
        f"{rate_text(tally.num_calls, run.totals)}{tally.modules_text()}: {size_text(moved)} over the bus.",
        where=tally.where(),
        evidence={**tally.evidence(run.totals), "bus_bytes_per_step": moved},
        why="The device waits for the copy, in every step.",
        action="Keep the tensor as a buffer (`register_buffer`), or create it on the device (`device=x.device`).",
        severity=None if calls >= 0.5 else Severity.INFO,
    )
    return run.priced(finding, Cost(bus_bytes=moved, num_synchronisations=calls))
