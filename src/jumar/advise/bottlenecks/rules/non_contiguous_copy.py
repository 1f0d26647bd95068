"""JM402 non-contiguous-copy.

## What it does
Finds the copies that exist only because a view left a tensor in an order of memory that the next
operator cannot take: explicit ones (`contiguous`, `reshape`, `clone`, `copy_` of a non-contiguous
tensor) and those that an NPU kernel makes by itself before it starts, when an operator other than a
matrix product gets a non-contiguous input. For each it names the view that is the cause and its
source line, with the number of copies and the bytes read and written for them.

## Why it matters
The copy computes nothing. It shows up in an NPU profile as `format_contiguous`, `PTCopy`,
`D2DCopywithStreamSynchronize`, `Transpose` or `AsStrided`. In the vendor's ShuffleNetV2 example the
forward fell from 1,100 to 600 ms when the non-contiguous halves that `chunk` leaves were removed.

## Example
```python
x = x.view(b, groups, c // groups, h, w)
x = torch.transpose(x, 1, 2).contiguous().view(b, -1, h, w)
```

## Use instead
```python
x = x.index_select(1, self.shuffle_index)  # index built once and kept as a buffer
```
Otherwise keep one layout from end to end, so that the transposition is not needed, or give the
operator the dimension to work on (`dim=`) instead of moving it.

## Fix safety
No edit is made: only the author knows whether another layout is possible.

## References
Ascend's PyTorch migration and training guide, "copy bottleneck" and the ShuffleNet tuning example; PyTorch
documentation, "Tensor Views". Matrix products take a transposed operand as a flag and are left out, as are
copies within one dense block of memory that keep its order (channels-last tensors).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from jumar.advise.bottlenecks.cost import Cost
from jumar.advise.bottlenecks.layout import is_reordered, relaid_input, who_reordered
from jumar.advise.bottlenecks.run import Call, Run, StepView
from jumar.advise.bottlenecks.tally import Tally, at_text, per_step, percent_text, rate_text, share
from jumar.advise.bottlenecks.tensors import contiguous_bytes, size_bytes
from jumar.advise.checks import Outcomes, not_checked
from jumar.base.findings import Finding, Json, Severity
from jumar.base.rules import Rule
from jumar.base.text import size_text
from jumar.operators import has, has_any, short_name
from jumar.recording.schema import split_source

RULE = Rule(
    code="JM402",
    name="non-contiguous-copy",
    summary="A view makes a tensor non-contiguous and a copy has to put it back in order.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


class Cause(NamedTuple):
    """Copies with the same cause are one finding."""

    view: str
    """Name of the view operator that lost contiguity; empty when it lies outside the recorded step."""
    view_source: str
    copy: str
    """Operator that copies, or empty for copies inside kernels."""
    copy_source: str
    phase: str


class Copied(NamedTuple):
    """One tensor that `call` copies, or that its kernel has to copy."""

    call: Call
    culprit: Call | None
    """The call that lost contiguity, None when it lies outside the step."""
    bytes_moved: int
    is_hidden: bool
    """Whether the copy is made inside the kernel."""

    @property
    def cause(self) -> Cause:
        """What this copy is counted under."""
        view = ("", "") if self.culprit is None else (self.culprit.row.name, self.culprit.row.source)
        row = self.call.row
        copy = ("", "") if self.is_hidden else (row.name, row.source)
        return Cause(*view, *copy, row.phase)


def find(run: Run) -> Outcomes:
    """Yield one finding for each cause of copies."""
    tallies: dict[Cause, Tally] = {}
    for step in run.steps:
        for call in step.calls:
            if call.launched and run.on_device(call):
                for copied in _copies(run, step, call):
                    tally = tallies.setdefault(copied.cause, Tally())
                    tally.add(call, step.step, bytes_moved=copied.bytes_moved)
    if not run.totals.has_storages:
        reason = "the recording does not say which tensors share memory, so copies have no known cause."
        yield not_checked(RULE, reason)
        return
    for cause, tally in tallies.items():
        yield _finding(run, cause, tally)


def _copies(run: Run, step: StepView, call: Call) -> Iterator[Copied]:
    if has(call.row.name, "copies"):
        position = relaid_input(call)
        if position is not None:
            yield Copied(call, who_reordered(step, call, position), call.bytes_moved, is_hidden=False)
    elif not has_any(call.row.name, "takes_strides", "foreach", "optimizer"):
        yield from _hidden_copies(run, step, call)


def _hidden_copies(run: Run, step: StepView, call: Call) -> Iterator[Copied]:
    copied: set[tuple[int, int]] = set()
    for position, tensor in enumerate(call.row.inputs):
        key = (tensor.storage, tensor.storage_offset)
        if key in copied or not run.is_on_device(tensor):
            continue
        culprit = who_reordered(step, call, position)
        if is_reordered(tensor, by_view=None if culprit is None else culprit.is_view):
            copied.add(key)
            yield Copied(call, culprit, size_bytes(tensor) + contiguous_bytes(tensor), is_hidden=True)


def _finding(run: Run, cause: Cause, tally: Tally) -> Finding:
    calls, moved = per_step(tally.num_calls, run.totals), per_step(tally.bytes_moved, run.totals)
    evidence: dict[str, Json] = {
        **tally.evidence(run.totals),
        "view": cause.view,
        "view_source": cause.view_source,
        "copy": cause.copy or "inside the kernels",
    }
    if not cause.copy:
        evidence["consumers"] = dict(tally.operators.most_common(5))
    where = tally.where()
    if cause.view_source:
        path, line = split_source(cause.view_source)
        where = replace(where, path=path, line=line)
    finding = RULE.finding(
        _message(run, cause, tally),
        where=where,
        evidence=evidence,
        why="The copy moves bytes and computes nothing; NPU profiles show it as format_contiguous, PTCopy or "
        "Transpose.",
        action=_action(cause.view),
        severity=None if tally.is_material(run.totals) else Severity.INFO,
        confidence="certain" if cause.copy else "likely",
    )
    return run.priced(finding, Cost(memory_bytes=moved, num_launches=calls))


def _message(run: Run, cause: Cause, tally: Tally) -> str:
    made = f"`{cause.view}`" if cause.view else "A tensor from outside the step"
    verb = "leaves tensors" if cause.view else "comes"
    moved = size_text(per_step(tally.bytes_moved, run.totals))
    amount = f"{rate_text(tally.num_calls, run.totals)}{tally.modules_text()}: {moved} a step"
    subject = f"{made}{at_text(cause.view_source)} {verb} non-contiguous"
    if cause.copy:
        there = at_text(cause.copy_source) if cause.copy_source != cause.view_source else ""
        part = percent_text(share(tally.bytes_moved, run.totals.bytes_moved))
        return f"{subject} in the {cause.phase}, and `{cause.copy}`{there} copies {amount}, {part} of all bytes moved."
    consumer = tally.operators.most_common(1)[0][0]
    return f"{subject} into `{consumer}` in the {cause.phase}, whose NPU kernel must first copy it {amount}."


def _action(view: str) -> str:
    if has(view, "permutation"):
        return (
            "Keep one layout from end to end; for a fixed reordering such as a channel shuffle, use `index_select` "
            "with an index kept as a buffer."
        )
    if has_any(view, "splitting", "slicing"):
        return "Split along the first dimension, or let the producer write two tensors, so that each part is whole."
    if short_name(view) == "expand":
        return "Let the operator broadcast a small tensor, or sum with weights, instead of expanding it first."
    return "Create the tensor in the order in which it is used."
