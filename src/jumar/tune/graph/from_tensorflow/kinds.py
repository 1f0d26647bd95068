"""`recognised`: which kind of a TensorFlow model a file or folder is, by its content; it needs no TensorFlow."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jumar.base.errors import InputError
from jumar.tune.graph.from_tensorflow.wire import BYTES, VARINT, kinds_of, nodes_of

Kind = Literal["graph", "saved_model", "keras"]
SUFFIXES = (".pb", ".keras", ".h5", ".hdf5", ".om")
SAVED_MODEL = "saved_model.pb"
_HDF5, _ZIP, _OM = b"\x89HDF\r\n\x1a\n", b"PK\x03\x04", b"IMOD"
_KERAS_MEMBERS = frozenset({"config.json", "metadata.json"})
_VARIABLES = frozenset({"Variable", "VariableV2", "VarHandleOp", "AutoReloadVariable", "TemporaryVariable"})
_SHOWN = 3
_SAVED_MODEL_FIELDS = {1: VARINT, 2: BYTES}
"""Fields of a SavedModel: saved_model_schema_version, meta_graphs."""
_ONNX_GRAPH = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """A model that TensorFlow reads."""

    path: Path
    kind: Kind
    suffix: str = ""
    """By which Keras chooses how to read a file: `.keras`, `.h5`."""
    keras: str = ""
    """The version of Keras that wrote it, where the file says so."""


def is_tensorflow(path: Path) -> bool:
    """Tell whether a path names a model of TensorFlow, also one that is damaged, or a compiled `.om`.

    Known suffixes are enough; of other files the first bytes decide.
    """
    if path.is_dir():
        return (path / SAVED_MODEL).is_file()
    if path.suffix.lower() in SUFFIXES:
        return True
    try:
        with path.open("rb") as file:
            head = file.read(len(_HDF5))
        return head.startswith((_HDF5, _OM)) or (head.startswith(_ZIP) and _is_keras(path)) or _is_graph(path, head)
    except OSError:
        return False


def recognised(path: Path) -> Recognised:
    """Return which model it is. Raises InputError for what TensorFlow does not read, or what must not be run."""
    if path.is_dir():
        return recognised(path / SAVED_MODEL)
    try:
        with path.open("rb") as file:
            head = file.read(len(_HDF5))
        if head.startswith(_OM) or path.suffix.lower() == ".om":
            raise InputError(
                f"{path} is compiled for one chip, and nothing of its graph can be planned again. Tune the model that "
                "it was made from: an .onnx file, a frozen .pb file or a SavedModel folder."
            )
        if head.startswith(_HDF5):
            return _of_hdf5(path)
        if head.startswith(_ZIP):
            return _of_zip(path)
        return _of_protobuf(path)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror or error}). Check the file, or write it again."
        ) from error


def _is_keras(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return set(archive.namelist()) >= _KERAS_MEMBERS
    except zipfile.BadZipFile:
        return False


def _is_graph(path: Path, head: bytes) -> bool:
    """Tell whether a file without a known suffix is a GraphDef: most files end at the first byte."""
    if head[:1] != b"\x0a":
        return False
    try:
        return bool(nodes_of(memoryview(path.read_bytes())))
    except ValueError:
        return False


def _of_protobuf(path: Path) -> Recognised:
    if path.suffix.lower() != ".pb" and path.suffix.lower() in SUFFIXES:
        what = "a zip file of Keras" if path.suffix.lower() == ".keras" else "an HDF5 file of Keras"
        raise InputError(f"{path} must be {what}, and its first bytes are of none. Save the model again.")
    content = memoryview(path.read_bytes())
    try:
        nodes = nodes_of(content)
    except ValueError as error:
        return _of_other_protobuf(path, content, str(error))
    if variables := [name for name, operator in nodes if operator in _VARIABLES]:
        raise InputError(
            f"{path} is not frozen: the values of its variables ({_listed(variables)}) are in a checkpoint. "
            "Give the SavedModel folder; or freeze the graph, by "
            "tf.compat.v1.graph_util.convert_variables_to_constants, and give that file."
        )
    return Recognised(path=path, kind="graph")


def _of_other_protobuf(path: Path, content: memoryview, reason: str) -> Recognised:
    try:
        kinds = kinds_of(content)
    except ValueError as error:
        kinds, reason = {}, str(error)
    if kinds == _SAVED_MODEL_FIELDS and path.name == SAVED_MODEL:
        return Recognised(path=path.parent, kind="saved_model")
    if kinds == _SAVED_MODEL_FIELDS:
        raise InputError(
            f"{path} is the {SAVED_MODEL} of a SavedModel under another name. Give the whole folder, in which "
            f"{SAVED_MODEL} lies beside variables."
        )
    if kinds.get(1) == VARINT and kinds.get(_ONNX_GRAPH) == BYTES:
        raise InputError(f"{path} is an ONNX model. Name it .onnx, and give that.")
    what = "the graph of a SavedModel" if path.name == SAVED_MODEL else "a GraphDef of TensorFlow"
    raise InputError(f"{path} must be {what}, and is damaged, cut short or something else ({reason}). Write it again.")


def _of_zip(path: Path) -> Recognised:
    """Return a `.keras` file with the version that wrote it."""
    try:
        with zipfile.ZipFile(path) as archive:
            if damaged := archive.testzip():
                raise zipfile.BadZipFile(f"its member {damaged} is damaged")
            lacking = _KERAS_MEMBERS - set(archive.namelist())
            if lacking:
                raise zipfile.BadZipFile(f"it has no {' and no '.join(sorted(lacking))}")
            config, about = (json.loads(archive.read(name)) for name in ("config.json", "metadata.json"))
    except (zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError, EOFError) as error:
        raise InputError(f"{path} must be a .keras file of Keras ({error}). Save the model again.") from error
    _check_layers(path, config)
    return Recognised(path=path, kind="keras", suffix=".keras", keras=_version(about))


def _of_hdf5(path: Path) -> Recognised:
    """Return a Keras model in HDF5 with the version that wrote it."""
    import h5py

    try:
        with h5py.File(path) as file:
            if "model_config" not in file.attrs:
                raise InputError(
                    f"{path} is an HDF5 file without model_config: it has weights at most, and no graph. Save the "
                    "whole model, by model.save."
                )
            config, about = json.loads(file.attrs["model_config"]), {"keras_version": file.attrs.get("keras_version")}
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise InputError(
            f"{path} must be an HDF5 file of Keras ({_first_line(error)}). Save the model again."
        ) from error
    _check_layers(path, config)
    return Recognised(path=path, kind="keras", suffix=".h5", keras=_version(about))


def _check_layers(path: Path, config: Any) -> None:
    """Refuse layers that hold Python code: reading such a file would run it."""
    if found := list(_lambdas(config)):
        raise InputError(
            f"{path} holds Python code in its Lambda layers ({_listed(found)}), and code in files is not run. Give it "
            "as a SavedModel folder, by model.export, or with layers of your own in the place of Lambda."
        )


def _lambdas(config: Any) -> Iterator[str]:
    if isinstance(config, dict):
        if config.get("class_name") == "Lambda":
            inner = config.get("config")
            yield str(inner.get("name", "Lambda") if isinstance(inner, dict) else "Lambda")
        for value in config.values():
            yield from _lambdas(value)
    elif isinstance(config, list):
        for value in config:
            yield from _lambdas(value)


def _version(about: Any) -> str:
    found = about.get("keras_version") if isinstance(about, dict) else None
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found or "")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
