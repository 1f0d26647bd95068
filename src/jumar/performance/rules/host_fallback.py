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

from jumar.findings import Severity
from jumar.performance.checker import Checker, Priced, Result, unable
from jumar.performance.cost import Cost
from jumar.performance.operators import READS_TO_HOST, size_bytes
from jumar.performance.subject import Call, OperatorSupport, StepView, Subject, Totals
from jumar.performance.tally import Tally, bytes_text, listing, per_step, percent_text, rate_text, share
from jumar.rules import Rule

RULE = Rule(
    code="JM401",
    name="host-round-trip",
    summary="An operator has no kernel on the SoC and runs on the host.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

WHY = "Each call drains the device's queue, copies its inputs to the host and its outputs back."


class HostFallback(Checker):
    """Counts calls of operators whose status in the device tables is `fallback`."""

    rule = RULE

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._status: dict[str, str] = {}
        self._tallies: dict[str, Tally] = {}
        self._unsupported: dict[str, int] = {}

    def observe(self, step: StepView) -> None:
        """Tally the step's fallback calls by operator."""
        if self.subject.support is None:
            return
        for call in step.calls:
            if call.is_view or call.base in READS_TO_HOST or not self.subject.on_device(call):
                continue
            status = self._status_of(call.row.name)
            if status == "fallback":
                tally = self._tallies.setdefault(call.row.name, Tally())
                tally.add(call, step.step, bytes_moved=self._bus_bytes(call))
            elif status == "unsupported":
                self._unsupported[call.row.name] = self._unsupported.get(call.row.name, 0) + 1

    def _status_of(self, name: str) -> str:
        if name not in self._status:
            self._status[name] = self._support(name).status
        return self._status[name]

    def _bus_bytes(self, call: Call) -> int:
        tensors = (*call.row.inputs, *call.row.outputs)
        return sum(size_bytes(tensor) for tensor in tensors if self.subject.is_on_device(tensor))

    def result(self, totals: Totals) -> Result:
        """Return one finding an operator."""
        if self.subject.support is None:
            return unable(self.subject.support_error or f"there is no operator table for {self.subject.soc.name}")
        findings = tuple(self._finding(name, tally, totals) for name, tally in self._tallies.items())
        return Result(findings=findings, not_checked=self._gaps())

    def _gaps(self) -> tuple[str, ...]:
        if not self._unsupported:
            return ()
        names = listing(sorted(self._unsupported), limit=4)
        return (
            f"{names}: {self.subject.soc.name} cannot run this at all, so its cost there is unknown; "
            "see `jumar assess` on this recording.",
        )

    def _finding(self, name: str, tally: Tally, totals: Totals) -> Priced:
        calls, moved = per_step(tally.num_calls, totals), per_step(tally.bytes_moved, totals)
        launches = share(tally.num_launches, totals.num_launches)
        evidence = {**tally.evidence(totals), "bus_bytes_per_step": moved, "soc": self.subject.soc.name}
        support = self._support(name)
        evidence["table_source"] = support.source
        message = (
            f"`{name}` has no kernel on {self.subject.soc.name} and runs on the host "
            f"{rate_text(tally.num_calls, totals)}{tally.modules_text()}: "
            f"{percent_text(launches)} of the operators, {bytes_text(moved)} over the bus."
        )
        finding = self.rule.finding(
            message,
            where=tally.where(),
            evidence=evidence,
            why=WHY,
            action="Take it out of the step (compute it once, or on the CPU beforehand), or write it with operators "
            "that have a kernel; `jumar assess` names them.",
            confidence="certain" if self.subject.accelerator and support.certain else "likely",
        )
        return Priced(finding, Cost(bus_bytes=moved, num_synchronisations=calls, num_launches=calls))

    def _support(self, name: str) -> OperatorSupport:
        assert self.subject.support is not None
        return self.subject.support.operator(name)
