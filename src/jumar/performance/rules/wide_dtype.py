"""JM405 wide-dtype.

## What it does
Reports operators that work on 64-bit numbers: float64 anywhere on the device, with the line where
float64 enters, and int64 indices handed to operators that also take int32 (`embedding`, `index_select`,
indexing with a tensor) when their bytes are a noticeable part of the step.

## Why it matters
The NPU's cube and vector units have no float64; such operators run on slow paths (AI CPU) or not
at all. It usually enters by accident: a NumPy array, a Python float turned into a tensor, `dtype=float`.
64-bit indices take twice the bytes they need.

## Example
```python
weights = torch.from_numpy(np.ones(1000))          # float64
```

## Use instead
```python
weights = torch.from_numpy(np.ones(1000, dtype=np.float32))
```

## Fix safety
No edit is made: float32 changes results. Targets of `cross_entropy` and indices of `gather` and `scatter`
must stay int64 in PyTorch and are not reported.

## References
The vendor's profiling advisor (`msprof-analyze`) advises float for DOUBLE too. That the three operators take
int32 was tried on PyTorch 2.13.
"""

from __future__ import annotations

from dataclasses import replace

from jumar.findings import Severity
from jumar.performance.checker import Checker, Priced, Result
from jumar.performance.cost import Cost
from jumar.performance.operators import base_name, size_bytes
from jumar.performance.subject import Call, StepView, Subject, Totals
from jumar.performance.tally import (
    MATERIAL_SHARE,
    Tally,
    bytes_text,
    number_text,
    per_step,
    percent_text,
    share,
    split_source,
)
from jumar.recording.schema import CallRow, TensorRow
from jumar.rules import Rule

RULE = Rule(
    code="JM405",
    name="wide-dtype",
    summary="Operators work on 64-bit numbers, which the NPU's units do not have.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

WIDE = frozenset({"float64", "complex128"})
TAKE_INT32 = frozenset({"embedding", "embedding_dense_backward", "index_select", "index"})

Entry = tuple[str, str]
"""Operator and source line where float64 enters."""


class WideDtype(Checker):
    """Follows float64 from where it enters; adds up 64-bit indices."""

    rule = RULE

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._entries: dict[Entry, Tally] = {}
        self._indices = Tally()

    def observe(self, step: StepView) -> None:
        """Tally the step's 64-bit operators."""
        came_from: dict[int, Entry] = {}
        for call in step.calls:
            if not call.launched or not self.subject.on_device(call):
                continue
            self._observe_float(step, call, came_from)
            self._observe_indices(step, call)

    def _observe_float(self, step: StepView, call: Call, came_from: dict[int, Entry]) -> None:
        row = call.row
        wide_in = [tensor for tensor in row.inputs if self._is_wide(tensor)]
        wide_out = [tensor for tensor in row.outputs if self._is_wide(tensor)]
        if not wide_in and not wide_out:
            return
        known = (came_from[tensor.storage] for tensor in wide_in if tensor.storage in came_from)
        entry = next(known, (row.name, row.source))
        for tensor in (*wide_in, *wide_out):
            came_from.setdefault(tensor.storage, entry)
        self._entries.setdefault(entry, Tally()).add(call, step.step)

    def _is_wide(self, tensor: TensorRow) -> bool:
        """Return whether a tensor is float64 data; 0-dimensional ones are Python numbers in disguise."""
        return tensor.dtype in WIDE and bool(tensor.shape) and self.subject.is_on_device(tensor)

    def _observe_indices(self, step: StepView, call: Call) -> None:
        if base_name(call.row.name) in TAKE_INT32:
            indices = _index_bytes(call.row)
            if indices:
                self._indices.add(call, step.step, bytes_moved=indices)

    def result(self, totals: Totals) -> Result:
        """Return one finding an entry of float64, and one for 64-bit indices when they weigh."""
        findings = [self._float_finding(entry, tally, totals) for entry, tally in self._entries.items()]
        if share(self._indices.bytes_moved, totals.bytes_moved) >= MATERIAL_SHARE:
            findings.append(self._index_finding(totals))
        return Result(findings=tuple(findings))

    def _float_finding(self, entry: Entry, tally: Tally, totals: Totals) -> Priced:
        operator, source = entry
        calls, moved = per_step(tally.num_calls, totals), per_step(tally.bytes_moved, totals)
        at = f" at {source}" if source else ""
        path, line = split_source(source)
        noun = "operator works" if calls == 1 else "operators work"
        finding = self.rule.finding(
            f"float64 enters at `{operator}`{at}, and {number_text(calls)} {noun} on it each step"
            f"{tally.modules_text()}: {percent_text(share(tally.num_launches, totals.num_launches))} of the operators, "
            f"{bytes_text(moved)}.",
            where=replace(tally.where(), path=path or None, line=line, operator=operator),
            evidence={**tally.evidence(totals), "entry": operator, "entry_source": source, "dtype": "float64"},
            why="The NPU's cube and vector units have no float64: these operators run on slow paths or on the host.",
            action="Create the tensor as float32 (`dtype=torch.float32`, `np.float32`) where it enters.",
            confidence="certain" if self.subject.accelerator else "likely",
        )
        return Priced(finding, Cost(bus_bytes=moved, num_launches=calls))

    def _index_finding(self, totals: Totals) -> Priced:
        tally = self._indices
        moved = per_step(tally.bytes_moved, totals)
        part = share(tally.bytes_moved, totals.bytes_moved)
        finding = self.rule.finding(
            f"{number_text(per_step(tally.num_calls, totals))} operators a step read indices as int64, "
            f"{bytes_text(moved)} ({percent_text(part)} of all bytes moved), where int32 does.",
            where=tally.where(),
            evidence={**tally.evidence(totals), "dtype": "int64"},
            why="64-bit indices take twice the bytes.",
            action="Make the index int32 once, when it is created or loaded.",
            severity=Severity.INFO,
            confidence="possible",
        )
        return Priced(finding, Cost(memory_bytes=moved / 2))


def _index_bytes(row: CallRow) -> int:
    """Return the bytes of the int64 tensors after the first argument."""
    return sum(size_bytes(tensor) for tensor in row.inputs[1:] if tensor.dtype == "int64")
