"""Graphs of exported programs (`.pt2`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from jumar.base.errors import InputError
from jumar.tune.graph.capture.capture import exported, graph_of_program, silence
from jumar.tune.graph.capture.captured import Captured, Gear, InputShape
from jumar.tune.graph.capture.examples import example, resized
from jumar.tune.graph.reading.normal import has_in_place
from jumar.tune.graph.reading.reading import flat_inputs
from jumar.tune.graph.rules import Observed, dynamic_shape
from jumar.tune.model.errors import TuneError

_GIVEN = torch.export.graph_signature.InputKind.USER_INPUT


def load_program(path: Path, gears: Sequence[Gear], folder: Path) -> list[Captured]:
    """Return the graph of each gear; without gears that of the sizes it was exported with.

    Raises InputError for a file that is no exported program, TuneError for one of changing sizes without gears.
    """
    program = _opened(path)
    args, kwargs = _example_inputs(program)
    changing = _changing(program)
    if not gears:
        if changing:
            raise TuneError(
                f"{path} takes changing sizes ({', '.join(changing)}), and sizes are tuned one by one; "
                f'name them: --input-shape "{_shapes(program)}".'
            )
        if has_in_place(program.graph_module):  # a file does not say which values share memory
            program = exported(program.module(), args, kwargs)
        return [graph_of_program(program, args, kwargs, folder=folder, name=path.stem, origin=str(path))]
    found = []
    for gear in gears:
        gear_args, gear_kwargs = _sized(program, args, kwargs, gear)
        label = ", ".join(map(str, gear))
        # The module checks its inputs against the sizes it was exported for, and says which one it breaks.
        again = exported(program.module(), tuple(gear_args), gear_kwargs)
        title = f"{path.stem} {label}"
        captured = graph_of_program(again, gear_args, gear_kwargs, folder=folder, name=title, origin=str(path))
        notes = tuple(dynamic_shape.find(Observed(name=path.name, changing=changing, gear=label)))
        found.append(replace(captured, findings=(*captured.findings, *notes)))
    return found


def _opened(path: Path) -> torch.export.ExportedProgram:
    try:
        with silence():  # PyTorch logs a traceback before it raises
            return torch.export.load(path)
    except Exception as error:
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise InputError(
            f"{path} must be an exported program ({reason}); write it with torch.export.save, with this PyTorch "
            f"({torch.__version__})."
        ) from error


def _example_inputs(program: torch.export.ExportedProgram) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the inputs it was exported with, or random ones of their sizes."""
    if program.example_inputs is not None:
        args, kwargs = program.example_inputs
        return tuple(args), dict(kwargs)
    made = [_random(node, place) for place, node in enumerate(_user_inputs(program))]
    args, kwargs = pytree.tree_unflatten(made, program.call_spec.in_spec)
    return tuple(args), dict(kwargs)


def _sized(
    program: torch.export.ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any], gear: Gear
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the inputs in the sizes of a gear, which names tensors as the program does, also those in a nesting."""
    flat = flat_inputs(program, args, kwargs)
    inputs = dict(zip((node.name for node in _user_inputs(program)), flat, strict=True))
    first = next((name for name, value in inputs.items() if isinstance(value, torch.Tensor)), "")
    _, changed = resized((), inputs, [replace(shape, name=shape.name or first) for shape in gear], ())
    new_args, new_kwargs = pytree.tree_unflatten(list(changed.values()), program.call_spec.in_spec)
    return tuple(new_args), dict(new_kwargs)


def _random(node: torch.fx.Node, place: int) -> Any:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return value
    shape = InputShape(name=node.name, shape=tuple(map(_size, value.shape)))
    return example(shape, dtype=value.dtype, place=place)


def _size(size: Any) -> int:
    """Return a size; of one that changes the one it was exported with."""
    return size if isinstance(size, int) else int(size.node.hint)


def _user_inputs(program: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    """Return the placeholder of each flat value that a caller hands in, also of one that is no tensor."""
    nodes = program.graph.find_nodes(op="placeholder")
    specs = program.graph_signature.input_specs
    return [node for node, spec in zip(nodes, specs, strict=True) if spec.kind is _GIVEN]


def _shapes(program: torch.export.ExportedProgram) -> str:
    """Return the sizes that the inputs which change were exported with, as `--input-shape` takes them."""
    values = {node.name: node.meta.get("val") for node in _user_inputs(program)}
    sizes = {name: value.shape for name, value in values.items() if isinstance(value, torch.Tensor)}
    return ";".join(
        f"{name}:{','.join(str(_size(size)) for size in shape)}"
        for name, shape in sizes.items()
        if not all(isinstance(size, int) for size in shape)
    )


def _changing(program: torch.export.ExportedProgram) -> list[str]:
    """Return the dimensions that have no fixed size: `x: dimension 0`."""
    found = []
    for node in _user_inputs(program):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            dimensions = [str(at) for at, size in enumerate(value.shape) if not isinstance(size, int)]
            if dimensions:
                found.append(f"{node.name}: dimension {', '.join(dimensions)}")
    return found
