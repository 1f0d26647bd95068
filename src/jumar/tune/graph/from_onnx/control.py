"""ONNX nodes that hold graphs: If, Loop and Scan, written out.

A `Graph` has one path. A choice that is known beforehand is made; of any other both sides are computed and one
is taken. Steps are written one after the other, as many as there can be at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from jumar.tune.graph.from_onnx.call import Call, Value, as_tensor
from jumar.tune.model.errors import TuneError

GREATEST_STEPS = 512
"""Of a loop that is written out: more would make a graph that nothing compiles."""

Body = Callable[[Sequence[Value]], "list[Value]"]
"""A graph within a node: from its inputs to its outputs."""


def run_if(call: Call, bodies: Mapping[str, Body]) -> list[Value]:
    """Compute an If."""
    condition = call.inputs[0]
    if isinstance(condition, np.ndarray):
        return bodies["then_branch" if bool(condition.reshape(-1)[0]) else "else_branch"]([])
    chosen = call.tensor(0).reshape(())
    sides = [[as_tensor(_there(one, call)) for one in bodies[name]([])] for name in ("then_branch", "else_branch")]
    for one, other in zip(*sides, strict=True):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            raise TuneError(
                f"{call} chooses by the values of the model's inputs between results of other shapes "
                f"({tuple(one.shape)} and {tuple(other.shape)}), so that the model is no graph of fixed shapes."
            )
    return [torch.where(chosen, one, other) for one, other in zip(*sides, strict=True)]


def run_loop(call: Call, bodies: Mapping[str, Body]) -> list[Value]:
    """Compute a Loop."""
    carried: list[Value] = [
        call.held[place] if value is None else value for place, value in enumerate(call.inputs) if place > 1
    ]
    going: Value = call.inputs[1] if call.has(1) else np.asarray(True)
    scans: list[list[Value]] = []
    for step in range(_steps(call)):
        if isinstance(going, np.ndarray) and not bool(going.reshape(-1)[0]):
            break
        made = bodies["body"]([np.asarray(step), going, *carried])
        new, found = made[1 : 1 + len(carried)], made[1 + len(carried) :]
        if isinstance(going, np.ndarray):
            carried, going = new, made[0]
        else:
            active = as_tensor(_there(going, call)).reshape(())
            carried = [_chosen(active, *pair, call) for pair in zip(new, carried, strict=True)]
            going = as_tensor(_there(made[0], call)).reshape(()) & active
        if found and not isinstance(going, np.ndarray):
            raise TuneError(f"{call} ends when its values say so and returns every step, so that no shape is fixed.")
        scans.append(found)
    num_scans = call.num_outputs - len(carried)
    if num_scans and not scans:
        raise TuneError(f"{call} makes no step, so that what it returns has no values; export the model without it.")
    return [*carried, *(_stacked([found[place] for found in scans], 0, call) for place in range(num_scans))]


def run_scan(call: Call, bodies: Mapping[str, Body]) -> list[Value]:
    """Compute a Scan (of operator set 9 or newer)."""
    num = int(call.attribute("num_scan_inputs"))
    first = len(call.inputs) - num
    carried: list[Value] = [call.tensor(place) for place in range(first)]
    axes = call.attribute("scan_input_axes") or [0] * num
    backwards = call.attribute("scan_input_directions") or [0] * num
    sources = [call.tensor(first + place).unbind(int(axes[place])) for place in range(num)]
    sources = [source[::-1] if back else source for source, back in zip(sources, backwards, strict=True)]
    steps = _few(len(sources[0]), call)
    scans: list[list[Value]] = []
    for step in range(steps):
        made = bodies["body"]([*carried, *(source[step] for source in sources)])
        carried = made[:first]
        scans.append(made[first:])
    num_scans = call.num_outputs - first
    axes = call.attribute("scan_output_axes") or [0] * num_scans
    backwards = call.attribute("scan_output_directions") or [0] * num_scans
    stacks = [
        _stacked([found[place] for found in (scans[::-1] if backwards[place] else scans)], int(axes[place]), call)
        for place in range(num_scans)
    ]
    return [*carried, *stacks]


RUNNERS: dict[str, Callable[[Call, Mapping[str, Body]], list[Value]]] = {
    "If": run_if,
    "Loop": run_loop,
    "Scan": run_scan,
}


def _steps(call: Call) -> int:
    if not isinstance(call.inputs[0], np.ndarray):
        raise TuneError(
            f"{call} makes as many steps as its values say, so that the model is no single graph; give it a greatest "
            "number of steps that is known beforehand."
        )
    return _few(int(call.inputs[0].reshape(-1)[0]), call)


def _few(steps: int, call: Call) -> int:
    if steps > GREATEST_STEPS:
        raise TuneError(
            f"{call} makes {steps} steps and is written out up to {GREATEST_STEPS} only; export it otherwise."
        )
    return steps


def _chosen(active: torch.Tensor, new: Value, old: Value, call: Call) -> Value:
    one, other = as_tensor(_there(new, call)), as_tensor(_there(old, call))
    if one.shape != other.shape:
        raise TuneError(f"{call} ends when its values say so and changes a shape, so that no shape is fixed.")
    return torch.where(active, one, other)


def _stacked(values: Sequence[Value], axis: int, call: Call) -> Value:
    return torch.stack([as_tensor(_there(value, call)) for value in values], axis)


def _there(value: Value, call: Call) -> Any:
    if value is None:
        raise TuneError(f"{call} returns a value that it does not compute; the model is damaged.")
    return value
