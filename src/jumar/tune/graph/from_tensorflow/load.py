"""Graphs of models of TensorFlow: converted by tf2onnx, checked against TensorFlow, then read as ONNX files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from jumar.tune.graph.capture.captured import Captured, Gear, InputShape
from jumar.tune.graph.from_onnx.sizes import Known, changing_sizes, chosen_shapes
from jumar.tune.graph.from_tensorflow.agreement import Array, check_agreement
from jumar.tune.graph.from_tensorflow.interpreter import Converter, converter
from jumar.tune.graph.from_tensorflow.kinds import Recognised, recognised
from jumar.tune.model.errors import TuneError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class _Input:
    """One input, as TensorFlow tells it."""

    name: str
    dtype: str
    sizes: Sequence[int | None] | None
    """None: of any rank."""


def load_tensorflow(path: Path, gears: Sequence[Gear], folder: Path) -> list[Captured]:
    """Return the graph of each gear of a model of TensorFlow; without gears that of the sizes it names.

    `path` is a frozen GraphDef (.pb), a SavedModel folder, a .keras file or a whole model in HDF5. Raises InputError
    for what is none of them or must not be run, UsageError for a gear of other inputs, TuneError for one of changing
    sizes without gears, without an interpreter that has TensorFlow and tf2onnx, for operators that tf2onnx does not
    convert, and where the converted model computes something else than TensorFlow.
    """
    model = recognised(path)
    wrote = f"Keras {model.keras}" if model.keras else ""
    with TemporaryDirectory(prefix="tensorflow-", dir=folder) as place, converter(path, Path(place), wrote) as asked:
        _say(f"{path}: TensorFlow starts")
        told = asked.ask({"kind": model.kind, "path": str(_named(model, Path(place)))}, _import_torch)
        inputs = [_Input(**one) for one in told["inputs"]]
        shapes = [_shapes(path, inputs, gear) for gear in gears or [[]]]
        _say(f"{path}: conversion by {_versions(told['versions'])}")
        found = []
        for number, one in enumerate(shapes):
            label = ", ".join(map(str, one))
            onnx = _converted(asked, path, inputs, one, Path(place) / f"{path.stem}_{number}.onnx")
            found.append(_loaded(path, onnx, folder, label if gears else "", _known(inputs)))
        return found


def _import_torch() -> None:
    """Take the seconds of this import while TensorFlow takes its own."""
    import_module("jumar.tune.graph.capture.capture")
    import_module("jumar.tune.graph.capture.examples")


def _named(model: Recognised, place: Path) -> Path:
    """Return the model's whole path, with the suffix that Keras goes by: if need be, that of a link in `place`."""
    path = model.path.absolute()
    if not model.suffix or path.suffix == model.suffix:
        return path
    link = place / f"model{model.suffix}"
    link.symlink_to(path)
    return link


def _known(inputs: Sequence[_Input]) -> list[Known]:
    return [(one.name, one.sizes or ()) for one in inputs]


def _shapes(path: Path, inputs: Sequence[_Input], gear: Gear) -> list[InputShape]:
    """Return the shape of each input; a tensor's name (`x:0`) means its input, too."""
    names = {one.name for one in inputs}
    plain = [one if one.name in names else replace(one, name=one.name.removesuffix(":0")) for one in gear]
    given = {one.name for one in plain} or {""}
    first = inputs[0].name
    for one in inputs:
        is_given = one.name in given or ("" in given and bool(plain) and one.name == first)
        if one.sizes is None and not is_given:
            raise TuneError(
                f"{path} does not say how many dimensions its input {one.name} has; name its sizes: "
                f'--input-shape "{one.name}:1,8".'
            )
    return chosen_shapes(path, _known(inputs), plain)


def _converted(
    asked: Converter, path: Path, inputs: Sequence[_Input], shapes: Sequence[InputShape], onnx: Path
) -> Path:
    """Write the model for these sizes as `onnx`, and check it against TensorFlow."""
    import numpy as np

    values = {
        one.name: _example(path, one, shape, place).numpy()
        for place, (one, shape) in enumerate(zip(inputs, shapes, strict=True))
    }
    given, made = onnx.with_suffix(".inputs.npz"), onnx.with_suffix(".outputs.npz")
    arrays: dict[str, Any] = {str(place): value for place, value in enumerate(values.values())}
    np.savez(given, **arrays)
    names = asked.ask({"inputs": str(given), "onnx": str(onnx), "outputs": str(made)})["outputs"]
    with np.load(made) as file:
        reference: list[Array] = [file[str(place)] for place in range(len(names))]
    worst = check_agreement(path, onnx, values, reference, names)
    _say(
        f"{path}: ONNX Runtime computes TensorFlow's outputs ({', '.join(names)}): greatest difference over greatest "
        f"value {worst:.2g}"
    )
    return onnx


def _example(path: Path, one: _Input, shape: InputShape, place: int) -> torch.Tensor:
    """Return the values of an input that `load_onnx` takes for it, too. Raises TuneError for a dtype without any."""
    import torch

    from jumar.tune.graph.capture.examples import example

    kind = getattr(torch, one.dtype, None)
    if not isinstance(kind, torch.dtype) or kind is torch.bfloat16:
        raise TuneError(
            f"{path} takes an input {one.name} of {one.dtype}, of which no examples can be made. Cut the model behind "
            "what reads it, and give that part."
        )
    return example(shape, dtype=kind, place=place)


def _loaded(path: Path, onnx: Path, folder: Path, label: str, inputs: Sequence[Known]) -> Captured:
    from jumar.tune.graph.from_onnx.load import load_onnx
    from jumar.tune.graph.rules import Observed, dynamic_shape

    (captured,) = load_onnx(onnx, [], folder)
    notes = dynamic_shape.find(Observed(name=path.name, changing=changing_sizes(inputs), gear=label)) if label else ()
    return replace(
        captured,
        name=f"{path.stem} {label}".strip(),
        origin=str(path),
        findings=(*captured.findings, *notes),
    )


def _versions(versions: Mapping[str, Any]) -> str:
    return f"tf2onnx {versions['tf2onnx']} and TensorFlow {versions['tensorflow']}"


def _say(line: str) -> None:
    """Tell how far it is: on stderr, as all of the process that captures."""
    with suppress(OSError):
        sys.stderr.write(f"jumar: {line}\n")
        sys.stderr.flush()
