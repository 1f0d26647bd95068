"""Graphs of ONNX files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.base.errors import InputError, UsageError
from jumar.tune.graph.capture.captured import Captured, Gear, InputShape
from jumar.tune.graph.from_onnx.sizes import changing_sizes, chosen_shapes
from jumar.tune.model.errors import TuneError

if TYPE_CHECKING:
    import onnx
    import torch


def load_onnx(path: Path, gears: Sequence[Gear], folder: Path) -> list[Captured]:
    """Return the graph of each gear of an ONNX model; without gears that of the sizes it names.

    Raises InputError for a file that is no ONNX model, UsageError for a gear of other inputs, TuneError for one of
    changing sizes without gears, for operators that are not converted, and where the package onnx is missing.
    """
    try:
        import onnx
    except ImportError as error:
        raise TuneError(f"{path} needs the package onnx, which is missing: pip install 'jumar[export]'.") from error
    from jumar.tune.graph.capture.capture import graph_of_module
    from jumar.tune.graph.from_onnx.module import OnnxModule
    from jumar.tune.graph.rules import Observed, dynamic_shape

    try:
        onnx.checker.check_model(str(path))  # the file: a model of 2 GiB and more is not checked in memory
        model = onnx.load(path)
    except Exception as error:
        reason = str(error).strip().splitlines()[0].rstrip(".") if str(error).strip() else type(error).__name__
        raise InputError(f"{path} must be an ONNX model ({reason}); export it again.") from error
    module = OnnxModule(model)
    known = [(one.name, _sizes(one)) for one in module.inputs]
    changing = changing_sizes(known)
    found = []
    for gear in gears or [[]]:
        shapes = chosen_shapes(path, known, gear)
        label = ", ".join(map(str, shapes))
        name = f"{path.stem} {label}" if gears else path.stem
        captured = graph_of_module(module, _examples(module.inputs, shapes), folder=folder, name=name, origin=str(path))
        notes = tuple(dynamic_shape.find(Observed(name=path.name, changing=changing, gear=label)))
        found.append(replace(captured, findings=(*captured.findings, *notes)))
    return found


def _examples(inputs: Sequence[onnx.ValueInfoProto], shapes: Sequence[InputShape]) -> list[torch.Tensor]:
    from jumar.tune.graph.capture.examples import example
    from jumar.tune.graph.from_onnx.call import dtype_of

    found = []
    for place, (one, shape) in enumerate(zip(inputs, shapes, strict=True)):
        dtype = dtype_of(one.type.tensor_type.elem_type)
        name = str(dtype).removeprefix("torch.")
        if shape.dtype not in {"", name}:
            raise UsageError(f"--input-shape gives {one.name} the dtype {shape.dtype}, and the model takes {name}.")
        found.append(example(shape, dtype=dtype, place=place))
    return found


def _sizes(value: onnx.ValueInfoProto) -> list[int | None]:
    """Return the sizes of an input, None for each that changes: some exporters write -1 for it."""
    return [
        one.dim_value if one.HasField("dim_value") and one.dim_value >= 0 else None
        for one in value.type.tensor_type.shape.dim
    ]
