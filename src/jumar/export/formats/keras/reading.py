"""`open_h5` and `open_keras`: weights in HDF5 files of Keras as a `Document`, with names a person can read.

Three layouts: that of Keras 2 (the attribute `layer_names`, a group a layer with `weight_names`; a whole model has it
under `model_weights`), that of Keras 3 (`layers/NAME/vars/NUMBER`, a variable a number), and data sets without either.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.base.errors import InputError
from jumar.export.formats.document import Document
from jumar.export.formats.keras.data import NAME, deferred, opened
from jumar.export.formats.keras.variables import variable_names
from jumar.export.tensors import Deferred

if TYPE_CHECKING:
    from jumar.recording.tensors.guard import Guard

_SKIPPED = {"layers", "_layer_checkpoint_dependencies", "_self_unconditional_checkpoint_dependencies"}
"""Groups of Keras that only hold others."""
_OTHERS = {"optimizer", "optimizer_weights", "metrics", "loss_tracker", "compile_metrics"}
_MOST = 1_000_000
_DEEPEST = 40
Found = list[tuple[str, str]]
"""Name and place of each tensor."""


def open_h5(path: Path) -> Document:
    """Return the tensors of an HDF5 file of weights.

    Raises InputError where it is damaged, points to other files, or declares far more than it stores.
    """
    with opened(path) as file:
        top = file.hdf5
        if "layer_names" in top.attrs or "layer_names0" in top.attrs:
            weights, others = _of_layers(file, ""), _others(file)
        elif "model_weights" in top:
            weights, others = _of_layers(file, "model_weights"), _others(file)
        elif _has_variables(file, top):
            weights, others = _of_variables(file), _others(file)
        else:
            weights, others = [(place, place) for place in _datasets(file, top, "")], []
        tensors = _tensors(path, file, weights)
        rest = _tensors(path, file, others)
    if not tensors:
        raise InputError(f"{path} holds no weights; save them with model.save_weights(PATH).")
    root: Any = {"weights": tensors, "training": rest} if rest else tensors
    return Document(root, "tensorflow", "HDF5", "weights" if rest else None)


def read_h5(path: Path) -> dict[str, Deferred]:
    """Return the tensors of a file that `write_h5` wrote. Raises InputError."""
    with opened(path) as file:
        return _tensors(path, file, _of_layers(file, ""))


def open_keras(path: Path) -> Document:
    """Return the weights in a `.keras` archive. Its layers are not built. Raises InputError as `open_h5`."""
    from jumar.export.formats.pytorch.archive import Archive

    archive, member = Archive(path), "model.weights.h5"
    folder = _Folder()
    unpacked = folder.path / member
    with unpacked.open("wb") as file:
        for piece in archive.pieces(member, 0, archive.size(member)):
            file.write(piece)
    try:
        document = open_h5(unpacked)
    except InputError as error:
        raise InputError(str(error).replace(str(unpacked), str(path))) from error
    return Document(_kept(document.root, folder), document.framework, "Keras", document.only)


class _Folder:
    """A folder that is removed when nothing refers to this object any more."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="jumar-keras-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def _kept(value: Any, folder: _Folder) -> Any:
    """Return tensors that hold on to the folder in which they are unpacked."""
    if isinstance(value, dict):
        return {key: _kept(item, folder) for key, item in value.items()}
    pieces = value.pieces

    def kept() -> Iterator[memoryview]:
        assert folder.path
        yield from pieces()

    return Deferred(value.info, kept, value.identity)


def _tensors(path: Path, file: Guard, found: Found) -> dict[str, Deferred]:
    tensors: dict[str, Deferred] = {}
    for name, place in found:
        data = file.item(place)
        told = data.attrs.get(NAME, name)
        name = told if isinstance(told, str) else name  # noqa: PLW2901
        if name in tensors:
            raise InputError(f"{path} has two tensors named {name!r}; save it again with other names of layers.")
        tensors[name] = deferred(path, data)
    return tensors


def _attribute(group: Any, name: str) -> list[str]:
    """Return a list of texts, which Keras splits where it is longer than HDF5 allows."""
    attributes = group.attrs
    if name in attributes:
        parts = [attributes[name]]
    else:
        parts = []
        while f"{name}{len(parts)}" in attributes:
            parts.append(attributes[f"{name}{len(parts)}"])
    texts = [text for part in parts for text in part]
    return [text.decode("utf-8") if isinstance(text, bytes) else str(text) for text in texts]


def _of_layers(file: Guard, top: str) -> Found:
    group = file.item(top) if top else file.hdf5
    found: Found = []
    layers = _attribute(group, "layer_names")
    extra = ["top_level_model_weights"] if "top_level_model_weights" in group else []
    for layer in [*layers, *extra]:
        inner = file.item(layer, group)
        for weight in _attribute(inner, "weight_names"):
            place = f"{top}/{layer}/{weight}" if top else f"{layer}/{weight}"
            found.append((f"{layer}\0{weight.removesuffix(':0')}", place))
    names = [name.partition("\0")[2] for name, _ in found]
    unique = len(set(names)) == len(names)
    return [(name.partition("\0")[2] if unique else name.replace("\0", "/"), place) for name, place in found]


def _others(file: Guard) -> Found:
    """Return what is no weight of the model: an optimizer's state."""
    found: Found = []
    for name in sorted(_OTHERS & set(file.hdf5)):
        item = file.item(name)
        found += [(place.removesuffix(":0"), place) for place in _datasets(file, item, name)]
    return found


def _has_variables(file: Guard, group: Any, depth: int = 0) -> bool:
    """Return whether a group named `vars` lies somewhere, whose members are numbers."""
    import h5py

    for name in group:
        item = file.item(name, group)
        if not isinstance(item, h5py.Group) or depth > _DEEPEST:
            continue
        if (name == "vars" and all(key.isdecimal() for key in item)) or _has_variables(file, item, depth + 1):
            return True
    return False


def _of_variables(file: Guard) -> Found:
    read, raw = list(_variables(file, file.hdf5, "", "", "")), list(_variables(file, file.hdf5, "", "", None))
    names = [name for name, _ in read]
    return read if len(set(names)) == len(names) else raw


def _variables(file: Guard, group: Any, place: str, name: str, kind: str | None, depth: int = 0) -> Iterator[Any]:
    """Yield name and place of each variable below a group. `kind` is its layer's class; None keeps the numbers."""
    import h5py

    if depth > _DEEPEST:
        raise InputError("an HDF5 file has groups within groups without an end; save it again.")
    for key in sorted(group, key=_natural):
        item = file.item(key, group)
        inner = f"{place}/{key}" if place else key
        if not isinstance(item, h5py.Group) or (not place and key in _OTHERS):
            continue
        if key == "vars":
            numbers = sorted(item, key=_natural)
            said = variable_names(kind or "", len(numbers)) if kind is not None else ()
            for at, number in enumerate(numbers):
                last = said[at] if said else number
                yield (f"{name}/{last}" if name else last), f"{inner}/{number}"
        elif key in _SKIPPED:
            yield from _variables(file, item, inner, name, kind, depth + 1)
        else:
            own = _own_name(item, key) if kind is not None else key
            below = f"{name}/{own}" if name else own
            yield from _variables(file, item, inner, below, None if kind is None else key, depth + 1)


def _own_name(group: Any, key: str) -> str:
    """Return the layer's name, which Keras 3 notes beside its variables; the group has that of the class."""
    import h5py

    if group.get("vars", getclass=True, getlink=True) is not h5py.HardLink:
        return key
    name = group["vars"].attrs.get("name", key)
    return name if isinstance(name, str) and name else key


def _datasets(file: Guard, group: Any, place: str, depth: int = 0) -> Iterator[str]:
    import h5py

    if isinstance(group, h5py.Dataset):
        yield place
        return
    if depth > _DEEPEST:
        raise InputError("an HDF5 file has groups within groups without an end; save it again.")
    for key in sorted(group, key=_natural):
        yield from _datasets(file, file.item(key, group), f"{place}/{key}" if place else key, depth + 1)


def _natural(name: str) -> tuple[str, int, str]:
    head = name.rstrip("0123456789")
    return (head, int(name[len(head) :] or 0), name)
