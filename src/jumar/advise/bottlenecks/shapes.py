"""`find_origins`: where a change of shapes between two steps begins.

That is in the loader, or at an operator with an output size that depends on the data.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

from jumar.advise.bottlenecks.run import Call, StepView
from jumar.recording.schema import TensorRow

Kind = Literal["batch", "length", "data"]
Site = tuple[str, str, str, str, int]


@dataclass(frozen=True, slots=True)
class Origin:
    """What kind of change it is and where, without the sizes: changes of one origin belong together."""

    kind: Kind
    """`batch`: dimension 0 of a tensor that the step is given or creates; `length`: another dimension of
    such a tensor; `data`: an operator returned another size for inputs of the same size."""
    operator: str
    source: str
    dimensions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShapeChange:
    """One tensor that has another shape than in the first step, at the place where that begins."""

    origin: Origin
    operator: str
    source: str
    module_path: str
    phase: str
    before: tuple[int, ...]
    after: tuple[int, ...]

    def describe(self) -> str:
        """Return the change as a clause: `the batch (dimension 0) of a tensor at train.py:7 changes (32×3 to 17×3)`."""
        at = f" at {self.source}" if self.source else ""
        if self.origin.kind == "data":
            return f"`{self.operator}`{at} returns a size that depends on the data ({_sizes(self)})"
        what = "the batch (dimension 0)" if self.origin.kind == "batch" else _dimensions(self.origin.dimensions)
        return f"{what} of a tensor entering at `{self.operator}`{at} changes ({_sizes(self)})"


def _dimensions(numbers: tuple[int, ...]) -> str:
    return f"dimension{'s' if len(numbers) > 1 else ''} " + " and ".join(map(str, numbers))


def _sizes(change: ShapeChange) -> str:
    return f"{_shape(change.before)} to {_shape(change.after)}"


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "scalar"


def find_origins(reference: StepView, step: StepView) -> list[ShapeChange]:
    """Return where shapes of `step` begin to differ from `reference`; empty when the calls do not line up.

    Calls are lined up by phase, module path, operator, source line and occurrence, and only where both steps
    have as many such calls: otherwise an occurrence is not the same call.
    """
    before = _by_site(reference)
    produced: set[int] = set()
    changes: dict[Origin, ShapeChange] = {}
    for site, call in _by_site(step).items():
        earlier = before.get(site)
        if earlier is not None:
            for change in _begins_here(earlier, call, produced):
                changes.setdefault(change.origin, change)
        if not call.is_view:
            produced.update(tensor.storage for tensor in call.row.outputs)
    return list(changes.values())


def _by_site(step: StepView) -> dict[Site, Call]:
    """Return the step's calls by site, keyed with the number of calls so that only equal counts line up."""
    groups: dict[tuple[str, str, str, str], list[Call]] = defaultdict(list)
    for call in step.calls:
        groups[call.row.phase, call.row.module_path, call.row.name, call.row.source].append(call)
    sites = {
        (phase, path, f"{name}/{len(calls)}", source, number): call
        for (phase, path, name, source), calls in groups.items()
        for number, call in enumerate(calls)
    }
    return dict(sorted(sites.items(), key=lambda item: item[1].index))


def _begins_here(earlier: Call, call: Call, produced: set[int]) -> list[ShapeChange]:
    old, new = earlier.row, call.row
    if len(old.outputs) != len(new.outputs):
        return []
    outputs = [(a, b) for a, b in zip(old.outputs, new.outputs, strict=True) if a.shape != b.shape]
    if not new.inputs or len(old.inputs) != len(new.inputs):
        # A tensor created in another size, or a batch collated from another number of samples.
        return [_entering(call, a, b) for a, b in outputs]
    inputs = [(a, b) for a, b in zip(old.inputs, new.inputs, strict=True) if a.shape != b.shape]
    if inputs:
        return [_entering(call, a, b) for a, b in inputs if b.storage not in produced]
    return [_depending(call, a, b) for a, b in outputs]


def _entering(call: Call, before: TensorRow, after: TensorRow) -> ShapeChange:
    dimensions = _changed_dimensions(before.shape, after.shape)
    # Images and targets enter at several calls: without the place they are one origin.
    return _change(Origin("batch" if dimensions == (0,) else "length", "", "", dimensions), call, before, after)


def _depending(call: Call, before: TensorRow, after: TensorRow) -> ShapeChange:
    dimensions = _changed_dimensions(before.shape, after.shape)
    return _change(Origin("data", call.row.name, call.row.source, dimensions), call, before, after)


def _change(origin: Origin, call: Call, before: TensorRow, after: TensorRow) -> ShapeChange:
    row = call.row
    return ShapeChange(origin, row.name, row.source, row.module_path, row.phase, before.shape, after.shape)


def _changed_dimensions(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...]:
    if len(before) != len(after):
        return tuple(range(max(len(before), len(after))))
    return tuple(number for number, (a, b) in enumerate(zip(before, after, strict=True)) if a != b)
