"""The model's file: names of open axes in it, its weights in a file beside it, and its way to its place."""

from __future__ import annotations

import contextlib
import importlib
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jumar.base.errors import InputError, OutputError
from jumar.base.files import PART_SUFFIX, check_output, explained, write_atomically
from jumar.export.onnx.axes import Axes

_SMALL = 1024
"""Tensors of fewer bytes stay in the model: shapes are read from them."""


def data_file(output: Path) -> Path:
    """Return where the weights of `output` lie when they have a file of their own."""
    return output.with_name(output.name + ".data")


@contextlib.contextmanager
def workplace(output: Path) -> Iterator[Path]:
    """Give a folder beside `output` to write in; it is gone when the block ends. Raises OutputError."""
    with explained(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{output.name[:100]}-", suffix=PART_SUFFIX, dir=output.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def load_graph(path: Path) -> Any:
    """Return the model of a file without the weights that lie beside it."""
    return importlib.import_module("onnx").load(str(path), load_external_data=False)


def gather_weights(path: Path, large: bool) -> None:
    """Put the weights of the file `path` into the one file beside it where `large`, or where they lie in several."""
    onnx = importlib.import_module("onnx")
    outside = {entry.value for item in load_graph(path).graph.initializer for entry in item.external_data
               if entry.key == "location"}  # fmt: skip
    name = data_file(path).name
    if outside <= {name} and (bool(outside) or not large):
        return
    model = onnx.load(str(path))
    for other in outside:
        (path.parent / other).unlink(missing_ok=True)
    path.unlink()
    onnx.save_model(
        model, str(path), save_as_external_data=True, all_tensors_to_one_file=True, location=name, size_threshold=_SMALL
    )


def fixed_axes(graph: Any, axes: Axes) -> list[tuple[str, int, int]]:
    """Return the axes that should be open and are not: input, axis, size."""
    found = []
    for item in graph.input:
        dims = item.type.tensor_type.shape.dim
        found += [(item.name, axis, dims[axis].dim_value) for axis in axes.get(item.name, {})
                  if dims[axis].WhichOneof("value") == "dim_value"]  # fmt: skip
    return found


def name_axes(path: Path, axes: Axes, outputs: Sequence[Mapping[int, str]]) -> None:
    """Write the user's names of open axes into the file. `outputs` has the axes that vary, for each output."""
    model = load_graph(path)
    names: dict[str, str] = {}
    for item in model.graph.input:
        for axis, label in axes.get(item.name, {}).items():
            dim = item.type.tensor_type.shape.dim[axis]
            if dim.dim_param:
                names.setdefault(dim.dim_param, label)
            dim.dim_param = label
    for item in (*model.graph.output, *model.graph.value_info):
        for dim in item.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = re.sub(r"\w+", lambda word: names.get(word[0], word[0]), dim.dim_param)
    for item, varying in zip(model.graph.output, outputs, strict=False):
        dims = item.type.tensor_type.shape.dim
        for axis, label in varying.items():
            if axis < len(dims) and dims[axis].WhichOneof("value") == "dim_value":
                dims[axis].dim_param = label
    path.write_bytes(model.SerializeToString())


def check(path: Path) -> None:
    """Let `onnx.checker` read the whole file. Raises InputError."""
    try:
        importlib.import_module("onnx").checker.check_model(str(path), full_check=True)
    except Exception as error:  # the checker's errors and protobuf's have no common base but Exception
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise InputError(f"the exporter wrote a file that onnx.checker refuses ({reason[:200]}).") from error


def place(path: Path, output: Path, force: bool) -> None:
    """Move the file and its weights to `output`: each is whole or not there. Raises OutputError."""
    beside, target = data_file(path), data_file(output)
    with explained(output):
        if beside.exists():
            check_output(target, force)
            if path.name != output.name:
                raise OutputError(f"{output} must have the name {path.name}, under which its weights are known.")
            beside.chmod(path.stat().st_mode)  # onnx writes it for its owner alone
            write_atomically(target, beside.replace)
        write_atomically(output, path.replace)
