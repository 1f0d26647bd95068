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

from collections.abc import Iterator
from typing import Literal

from jumar.advise.bottlenecks.cost import Cost
from jumar.advise.bottlenecks.run import Call, Run
from jumar.advise.bottlenecks.tally import Tally, number_text, per_step, rate_text
from jumar.advise.bottlenecks.tensors import arguments, copy_of
from jumar.advise.checks import NotChecked, Outcomes, not_checked
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.operators import has
from jumar.recording.schema import CallRow

RULE = Rule(
    code="JM406",
    name="host-synchronisation",
    summary="The host waits for the device inside a step.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

MASKED = frozenset({"index", "index_put", "index_put_", "_index_put_impl_"})

Kind = Literal["reads a number", "needs a size that depends on the data", "copies to the host"]

ACTIONS: dict[Kind, str] = {
    "reads a number": "Keep the value on the device (`.detach()`) and read it every N steps, or after the epoch.",
    "needs a size that depends on the data": "Use a form of fixed size: `torch.where`, multiplication by the mask, "
    "`topk` with a fixed k.",
    "copies to the host": "Copy once after the step, or with `non_blocking=True` into pinned memory.",
}


def find(run: Run) -> Outcomes:
    """Yield one finding for each source line and kind of wait."""
    tallies: dict[tuple[str, Kind], Tally] = {}
    num_optimizer_reads = 0
    for step in run.steps:
        for call in step.calls:
            kind = _kind(run, call)
            if kind is None:
                continue
            if not run.accelerator and call.row.phase == "optimizer" and kind == "reads a number":
                num_optimizer_reads += 1
                continue
            tallies.setdefault((call.row.source, kind), Tally()).add(call, step.step)
    for (source, kind), tally in tallies.items():
        yield _finding(run, source, kind, tally)
    if not run.accelerator:
        yield from _unseen_on_the_cpu(num_optimizer_reads)


def _kind(run: Run, call: Call) -> Kind | None:
    row = call.row
    if call.prepares_data and not run.accelerator:
        return None
    if not any(run.is_on_device(tensor) for tensor in row.inputs):
        return None
    if has(row.name, "to_host"):
        return "reads a number"
    if has(row.name, "sized_by_values") or _repeats_by_a_tensor(row):
        return "needs a size that depends on the data"
    if call.base in MASKED and any(tensor.dtype in {"bool", "uint8"} for tensor in row.inputs[1:]):
        return "needs a size that depends on the data"
    return "copies to the host" if _is_blocking_copy(run, call) else None


def _is_blocking_copy(run: Run, call: Call) -> bool:
    copy = copy_of(call.row) if run.accelerator else None
    if copy is None or not run.is_on_device(copy.source) or not copy.target.device.startswith("cpu"):
        return False
    return not arguments(call.row).get("non_blocking")


def _repeats_by_a_tensor(row: CallRow) -> bool:
    """Return whether the numbers of repeats are in a tensor, and the size of the result is not given."""
    return (
        row.name.startswith("aten::repeat_interleave.")
        and "Tensor" in row.name
        and not arguments(row).get("output_size")
    )


def _unseen_on_the_cpu(num_optimizer_reads: int) -> Iterator[NotChecked]:
    reason = "copies to the host cannot be seen in a run on the CPU; record on the NPU (`jumar run` emulates one)."
    yield not_checked(RULE, reason, partly=True)
    if num_optimizer_reads:
        reason = (
            f"{num_optimizer_reads} numbers read by the optimizer: in a run on the CPU they cannot be told "
            "from counters that live on the host anyway; record on the NPU."
        )
        yield not_checked(RULE, reason, partly=True)


def _finding(run: Run, source: str, kind: Kind, tally: Tally) -> Finding:
    calls = per_step(tally.num_calls, run.totals)
    place = source or "A line that the recording does not name"
    operator = tally.operators.most_common(1)[0][0]
    finding = RULE.finding(
        f"{place} makes the host wait for the device {rate_text(tally.num_calls, run.totals)}{tally.modules_text()}: "
        f"`{operator}` {kind}.",
        where=tally.where(),
        evidence={**tally.evidence(run.totals), "kind": kind},
        why=f"The host waits until the device's queue is empty: {number_text(calls)} times a step the device then "
        "waits for the host.",
        action=ACTIONS[kind],
        severity=None if calls >= 0.5 else Severity.INFO,
    )
    return run.priced(finding, Cost(num_synchronisations=calls))
