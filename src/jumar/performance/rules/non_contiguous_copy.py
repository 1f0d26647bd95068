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

from dataclasses import dataclass, field, replace

from jumar.findings import Json, Severity
from jumar.performance.checker import Checker, Priced, Result, unable
from jumar.performance.cost import Cost
from jumar.performance.layout import is_reordered, relaid_input, who_reordered
from jumar.performance.operators import COPIES, contiguous_bytes, size_bytes
from jumar.performance.subject import Call, StepView, Subject, Totals
from jumar.performance.tally import Tally, bytes_text, per_step, percent_text, rate_text, share, split_source
from jumar.rules import Rule

RULE = Rule(
    code="JM402",
    name="non-contiguous-copy",
    summary="A view makes a tensor non-contiguous and a copy has to put it back in order.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

_TAKE_STRIDES = """
    mm addmm bmm baddbmm matmul linear addmv mv dot addr
    cat stack sum mean fill_ zero_ zeros_like ones_like empty_like full_like rand_like randn_like
"""
TAKE_STRIDES = frozenset(_TAKE_STRIDES.split())
"""Operators that read a strided input without a copy of it (a transposed matrix operand is a flag), or do not read
it: `cat` copies its inputs anyway, a sum over expanded ones is a scale, `*_like` take only the shape."""

WHY = "The copy moves bytes and computes nothing; NPU profiles show it as format_contiguous, PTCopy or Transpose."


@dataclass(frozen=True, slots=True)
class Cause:
    """Copies with the same cause are one finding."""

    view: str
    """Name of the view operator that lost contiguity; empty when it lies outside the recorded step."""
    view_source: str
    copy: str
    """Operator that copies, or empty for copies inside kernels."""
    copy_source: str
    phase: str


@dataclass(slots=True)
class Group:
    """The copies of one cause."""

    tally: Tally = field(default_factory=Tally)
    consumers: dict[str, int] = field(default_factory=dict)


class NonContiguousCopy(Checker):
    """Tallies copies of non-contiguous tensors by the view that caused them."""

    rule = RULE

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        self._groups: dict[Cause, Group] = {}

    def observe(self, step: StepView) -> None:
        """Tally the step's copies."""
        for call in step.calls:
            if call.is_view or not call.launched or not self.subject.on_device(call):
                continue
            if call.base in COPIES:
                self._observe_copy(step, call)
            elif call.base not in TAKE_STRIDES and not call.base.startswith(("_foreach_", "_fused_")):
                self._observe_hidden(step, call)

    def _observe_copy(self, step: StepView, call: Call) -> None:
        position = relaid_input(call)
        if position is not None:
            self._add(step, call, who_reordered(step, call, position), call.row.name, call.bytes_moved)

    def _observe_hidden(self, step: StepView, call: Call) -> None:
        copied: set[tuple[int, int]] = set()
        for position, tensor in enumerate(call.row.inputs):
            key = (tensor.storage, tensor.storage_offset)
            if key in copied or not self.subject.is_on_device(tensor):
                continue
            culprit = who_reordered(step, call, position)
            if is_reordered(tensor, by_view=None if culprit is None else culprit.is_view):
                copied.add(key)
                self._add(step, call, culprit, "", size_bytes(tensor) + contiguous_bytes(tensor))

    def _add(self, step: StepView, call: Call, view: Call | None, copy: str, moved: int) -> None:
        cause = Cause(
            view="" if view is None else view.row.name,
            view_source="" if view is None else view.row.source,
            copy=copy,
            copy_source=call.row.source if copy else "",
            phase=call.row.phase,
        )
        group = self._groups.setdefault(cause, Group())
        group.tally.add(call, step.step, bytes_moved=moved)
        group.consumers[call.row.name] = group.consumers.get(call.row.name, 0) + 1

    def result(self, totals: Totals) -> Result:
        """Return one finding a cause."""
        findings = tuple(self._finding(cause, group, totals) for cause, group in self._groups.items())
        if not totals.has_storages:
            return unable("the recording does not say which tensors share memory, so copies have no known cause.")
        return Result(findings=findings)

    def _finding(self, cause: Cause, group: Group, totals: Totals) -> Priced:
        tally = group.tally
        calls, moved = per_step(tally.num_calls, totals), per_step(tally.bytes_moved, totals)
        evidence: dict[str, Json] = {
            **tally.evidence(totals),
            "view": cause.view,
            "view_source": cause.view_source,
            "copy": cause.copy or "inside the kernels",
        }
        if not cause.copy:
            evidence["consumers"] = dict(sorted(group.consumers.items(), key=lambda item: -item[1])[:5])
        where = tally.where()
        if cause.view_source:
            path, line = split_source(cause.view_source)
            where = replace(where, path=path, line=line)
        finding = self.rule.finding(
            _message(
                cause, group, rate_text(tally.num_calls, totals), moved, share(tally.bytes_moved, totals.bytes_moved)
            ),
            where=where,
            evidence=evidence,
            why=WHY,
            action=_action(cause),
            severity=None if tally.is_material(totals) else Severity.INFO,
            confidence="certain" if cause.copy else "likely",
        )
        return Priced(finding, Cost(memory_bytes=moved, num_launches=calls))


def _message(cause: Cause, group: Group, rate: str, moved: float, part: float) -> str:
    made = f"`{cause.view}`" if cause.view else "A tensor from outside the step"
    at = f" at {cause.view_source}" if cause.view_source else ""
    verb = "leaves tensors" if cause.view else "comes"
    amount = f"{rate}{group.tally.modules_text()}: {bytes_text(moved)} a step"
    if cause.copy:
        there = f" at {cause.copy_source}" if cause.copy_source not in {"", cause.view_source} else ""
        return (
            f"{made}{at} {verb} non-contiguous in the {cause.phase}, and `{cause.copy}`{there} copies "
            f"{amount}, {percent_text(part)} of all bytes moved."
        )
    consumer = max(group.consumers, key=lambda name: group.consumers[name])
    return (
        f"{made}{at} {verb} non-contiguous into `{consumer}` in the {cause.phase}, whose NPU kernel must first copy "
        f"it {amount}."
    )


def _action(cause: Cause) -> str:
    name = cause.view.removeprefix("aten::").split(".")[0]
    if name in {"transpose", "permute", "t", "movedim", "swapaxes"}:
        return (
            "Keep one layout from end to end; for a fixed reordering such as a channel shuffle, use `index_select` "
            "with an index kept as a buffer."
        )
    if name in {"split", "chunk", "slice", "narrow", "select", "unbind", "split_with_sizes", "unsafe_split"}:
        return "Split along the first dimension, or let the producer write two tensors, so that each part is whole."
    if name == "expand":
        return "Let the operator broadcast a small tensor, or sum with weights, instead of expanding it first."
    return "Create the tensor in the order in which it is used."
