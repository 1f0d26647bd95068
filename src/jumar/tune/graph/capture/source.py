"""Where graphs come from: an exported program, a function that makes a model, an ONNX file, a model of TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jumar.base.errors import InputError
from jumar.tune.graph.capture.captured import Captured, Gear, parse_shapes
from jumar.tune.graph.from_tensorflow.kinds import SUFFIXES as OF_TENSORFLOW
from jumar.tune.graph.from_tensorflow.kinds import is_tensorflow

SUFFIXES = (".pt2", ".onnx")


def is_graph_source(where: str) -> bool:
    """Tell whether `where` names a model rather than a recording or a script.

    It is `net.pt2`, `net.onnx`, a model of TensorFlow, also a folder with saved_model.pb, or
    `package.module:callable`.
    """
    path = Path(where)
    if path.is_dir():
        return is_tensorflow(path)
    return path.suffix.lower() in SUFFIXES or bool(_factory_of(where)) or is_tensorflow(path)


def load_graphs(where: str, *, folder: Path, input_shape: str = "") -> list[Captured]:
    """Return the graphs of the model that `where` names; their data files are written to `folder`, which is made.

    One graph a gear of `input_shape` (see `jumar.tune.graph.capture.captured`), and one a piece of a model that is no
    single graph. What must not be tuned (random numbers, runs that differ) is said in each one's `findings`. Raises
    UsageError for a shape, InputError for a file or name, TuneError for a model that cannot be used, in one sentence.
    The model runs in this process; `jumar.tune.graph.capture.apart.captured_apart` does the same in one of its own.
    """
    gears = parse_shapes(input_shape)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made: {error.strerror}. Name another folder.") from error
    path = Path(where)
    suffix = path.suffix.lower()
    if suffix in {*SUFFIXES, *OF_TENSORFLOW} and not path.exists():
        raise InputError(f"{where} must be a file; there is none. Check the name.")
    if suffix in SUFFIXES and not path.is_file():
        raise InputError(f"{where} must be a file, and it is a folder. Check the name.")
    if suffix == ".pt2":
        from jumar.tune.graph.capture.programs import load_program

        return load_program(path, gears, folder)
    if suffix == ".onnx":
        from jumar.tune.graph.from_onnx.load import load_onnx

        return load_onnx(path, gears, folder)
    if is_tensorflow(path):
        from jumar.tune.graph.from_tensorflow.load import load_tensorflow

        return load_tensorflow(path, gears, folder)
    return _from_factory(where, gears, folder)


def _from_factory(where: str, gears: Sequence[Gear], folder: Path) -> list[Captured]:
    from jumar.tune.graph.capture.factory import load_factory

    factory = _factory_of(where)
    if factory is None:
        raise InputError(
            f'"{where}" must be a model: an .onnx or .pt2 file, a model of TensorFlow (.pb, SavedModel folder, .keras, '
            ".h5), or module:callable (models:resnet50, net.py:make)."
        )
    return load_factory(*factory, where, gears, folder)


def _factory_of(where: str) -> tuple[str, str] | None:
    """Return (module or file, attribute) of `package.module:callable` or `folder/file.py:callable`."""
    module, _, name = where.rpartition(":")
    if not module or not all(part.isidentifier() for part in name.split(".")):
        return None
    if module.endswith(".py"):
        return module, name
    return (module, name) if all(part.isidentifier() for part in module.split(".")) else None
