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
The vendor's profiling advisor (`msprof-analyze`) advises float for DOUBLE too. The three
operators take int32 on PyTorch 2.13 (tried).
"""

from __future__ import annotations

from dataclasses import replace

from jumar.advise.bottlenecks.cost import Cost
from jumar.advise.bottlenecks.run import Call, Run
from jumar.advise.bottlenecks.tally import (
    MATERIAL_SHARE,
    Tally,
    at_text,
    number_text,
    per_step,
    percent_text,
    share,
)
from jumar.advise.bottlenecks.tensors import size_bytes
from jumar.advise.checks import Outcomes
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import size_text
from jumar.recording.schema import CallRow, TensorRow, split_source

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


def find(run: Run) -> Outcomes:
    """Yield one finding for each entry of float64, and one for 64-bit indices when they weigh."""
    entries: dict[Entry, Tally] = {}
    indices = Tally()
    for step in run.steps:
        came_from: dict[int, Entry] = {}
        for call in step.calls:
            if not call.launched or not run.on_device(call):
                continue
            entry = _entry(run, call, came_from)
            if entry is not None:
                entries.setdefault(entry, Tally()).add(call, step.step)
            index_bytes = _index_bytes(call.row) if call.base in TAKE_INT32 else 0
            if index_bytes:
                indices.add(call, step.step, bytes_moved=index_bytes)
    for entry, tally in entries.items():
        yield _float_finding(run, entry, tally)
    if share(indices.bytes_moved, run.totals.bytes_moved) >= MATERIAL_SHARE:
        yield _index_finding(run, indices)


def _entry(run: Run, call: Call, came_from: dict[int, Entry]) -> Entry | None:
    """Return where the float64 that `call` works on enters, None when it works on none; note where it goes."""
    row = call.row
    wide = [tensor for tensor in (*row.inputs, *row.outputs) if _is_wide(run, tensor)]
    if not wide:
        return None
    known = (
        came_from[tensor.storage] for tensor in row.inputs if _is_wide(run, tensor) and tensor.storage in came_from
    )
    entry = next(known, (row.name, row.source))
    for tensor in wide:
        came_from.setdefault(tensor.storage, entry)
    return entry


def _is_wide(run: Run, tensor: TensorRow) -> bool:
    """Return whether a tensor is float64 data. A 0-dimensional tensor holds a Python number and does not count."""
    return tensor.dtype in WIDE and bool(tensor.shape) and run.is_on_device(tensor)


def _index_bytes(row: CallRow) -> int:
    """Return the bytes of the int64 tensors after the first argument."""
    return sum(size_bytes(tensor) for tensor in row.inputs[1:] if tensor.dtype == "int64")


def _float_finding(run: Run, entry: Entry, tally: Tally) -> Finding:
    operator, source = entry
    totals = run.totals
    calls, moved = per_step(tally.num_calls, totals), per_step(tally.bytes_moved, totals)
    path, line = split_source(source)
    noun = "operator works" if calls == 1 else "operators work"
    finding = RULE.finding(
        f"float64 enters at `{operator}`{at_text(source)}, and {number_text(calls)} {noun} on it each step"
        f"{tally.modules_text()}: {percent_text(share(tally.num_launches, totals.num_launches))} of the operators, "
        f"{size_text(moved)}.",
        where=replace(tally.where(), path=path, line=line, operator=operator),
        evidence={**tally.evidence(totals), "entry": operator, "entry_source": source, "dtype": "float64"},
        why="The NPU's cube and vector units have no float64: these operators run on slow paths or on the host.",
        action="Create the tensor as float32 (`dtype=torch.float32`, `np.float32`) where it enters.",
        confidence="certain" if run.accelerator else "likely",
    )
    return run.priced(finding, Cost(bus_bytes=moved, num_launches=calls))


def _index_finding(run: Run, tally: Tally) -> Finding:
    moved = per_step(tally.bytes_moved, run.totals)
    part = share(tally.bytes_moved, run.totals.bytes_moved)
    finding = RULE.finding(
        f"{number_text(per_step(tally.num_calls, run.totals))} operators a step read indices as int64, "
        f"{size_text(moved)} ({percent_text(part)} of all bytes moved), where int32 does.",
        where=tally.where(),
        evidence={**tally.evidence(run.totals), "dtype": "int64"},
        why="64-bit indices take twice the bytes.",
        action="Make the index int32 once, when it is created or loaded.",
        severity=Severity.INFO,
        confidence="possible",
    )
    return run.priced(finding, Cost(memory_bytes=moved / 2))
