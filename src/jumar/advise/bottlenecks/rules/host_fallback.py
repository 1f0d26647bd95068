"""JM401 host-round-trip.

## What it does
Lists the operators of a recorded run that the chosen SoC has no kernel for and that therefore run on
the host: how often, from which modules and lines, and how many bytes have to cross the bus for them
(every input on the device to the host, every output back).

## Why it matters
A fallback stops the device: its queue is drained, the inputs are copied to the host, the CPU computes,
and the outputs are copied back. One such operator in every block can cost more than the block.

## Example
```python
values = torch.linalg.eigvals(matrix)
```

## Use instead
Compute it once outside the step, write it with operators the NPU has, or keep the whole part on the
CPU so that only its end result is copied.

## Fix safety
No edit is made.

## References
The packaged operator tables (`jumar assess` lists them all with their source). Bytes are those of the
recorded shapes. In a run on the CPU every tensor counts as one that would be on the NPU, data
preparation in the main process included: such findings are marked as likely.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

from jumar.advise.bottlenecks.cost import Cost
from jumar.advise.bottlenecks.run import Call, OperatorSupport, Run
from jumar.advise.bottlenecks.tally import Tally, per_step, percent_text, rate_text, share
from jumar.advise.bottlenecks.tensors import size_bytes
from jumar.advise.checks import Outcomes, not_checked
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import listing, size_text
from jumar.operators import has

RULE = Rule(
    code="JM401",
    name="host-round-trip",
    summary="An operator has no kernel on the SoC and runs on the host.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(run: Run) -> Outcomes:
    """Yield one finding for each operator whose status in the device tables is `fallback`."""
    if run.support is None:
        yield not_checked(RULE, run.support_error or f"there is no operator table for {run.soc.name}")
        return
    support = cache(run.support.operator)
    tallies: dict[str, Tally] = {}
    unsupported: Counter[str] = Counter()
    for step in run.steps:
        for call in step.calls:
            if call.is_view or has(call.row.name, "to_host") or not run.on_device(call):
                continue
            name = call.row.name
            status = support(name).status
            if status == "fallback":
                tallies.setdefault(name, Tally()).add(call, step.step, bytes_moved=_bus_bytes(run, call))
            elif status == "unsupported":
                unsupported[name] += 1
    for name, tally in tallies.items():
        yield _finding(run, name, support(name), tally)
    if unsupported:
        reason = (
            f"{listing(sorted(unsupported), limit=4)}: {run.soc.name} cannot run this at all, so its cost there is "
            "unknown; see `jumar assess` on this recording."
        )
        yield not_checked(RULE, reason, partly=True)


def _bus_bytes(run: Run, call: Call) -> int:
    return sum(size_bytes(tensor) for tensor in (*call.row.inputs, *call.row.outputs) if run.is_on_device(tensor))


def _finding(run: Run, name: str, support: OperatorSupport, tally: Tally) -> Finding:
    totals = run.totals
    calls, moved = per_step(tally.num_calls, totals), per_step(tally.bytes_moved, totals)
    finding = RULE.finding(
        f"`{name}` has no kernel on {run.soc.name} and runs on the host "
        f"{rate_text(tally.num_calls, totals)}{tally.modules_text()}: "
        f"{percent_text(share(tally.num_launches, totals.num_launches))} of the operators, "
        f"{size_text(moved)} over the bus.",
        where=tally.where(),
        evidence={
            **tally.evidence(totals),
            "bus_bytes_per_step": moved,
            "soc": run.soc.name,
            "table_source": support.source,
        },
        why="Each call drains the device's queue, copies its inputs to the host and its outputs back.",
        action="Take it out of the step (compute it once, or on the CPU beforehand), or write it with operators "
        "that have a kernel; `jumar assess` names them.",
        confidence="certain" if run.accelerator and support.certain else "likely",
    )
    return run.priced(finding, Cost(bus_bytes=moved, num_synchronisations=calls, num_launches=calls))
