"""`write_h5`: weights as HDF5 in the layout of Keras 2, which Keras 2 and 3 load by name.

The attribute `layer_names` names a group a layer; a group's attribute `weight_names` names its data sets, in order. A
name `head/kernel` or `head.kernel` is the data set `head/kernel:0` of the layer `head`. What HDF5 has no numbers for
(bfloat16, float8) is opaque bytes with the attribute `dtype`, as Keras 3 writes bfloat16.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jumar.base.errors import OutputError
from jumar.export.formats.keras.data import DTYPE, NAME, NUMPY, OPAQUE
from jumar.export.tensors import Deferred

_MOST_ATTRIBUTE_BYTES = 60_000
"""HDF5 holds no attribute of more than 64 kiB; Keras splits a longer list of names."""
_LONGEST = 512
"""Longer names get a number for their place in the file, and stand in an attribute."""


def write_h5(path: Path, state: Mapping[str, Deferred], wrote: Callable[[Deferred, memoryview], None]) -> None:
    """Write tensors; `wrote` gets every piece. Raises OutputError for a name or dtype without a place, OSError."""
    for name, tensor in state.items():
        if tensor.dtype not in NUMPY and tensor.dtype not in OPAQUE:
            raise OutputError(f"{name!r} is {tensor.dtype}, which HDF5 has not; convert it, or write a .pt file.")
        if not _is_text(name):
            raise OutputError(f"{name!r} is no Unicode text, which HDF5 needs; write a .pt file.")
    try:
        offsets = _made(path, state)
    except (RuntimeError, ValueError) as error:  # h5py raises these for a full disk, too
        raise OutputError(f"{path} cannot be written ({str(error)[:160]}); make room on the disk.") from error
    with path.open("r+b") as file:
        for name, offset in offsets.items():
            file.seek(offset)
            for piece in state[name].pieces():
                wrote(state[name], piece)
                file.write(piece)


def _made(path: Path, state: Mapping[str, Deferred]) -> dict[str, int]:
    """Make the file without values; return where those of each tensor belong."""
    import h5py

    offsets: dict[str, int] = {}
    layers = _layers(state)
    with h5py.File(path, "w", libver=("earliest", "v110")) as file:
        _put(file, "layer_names", list(layers))
        file.attrs["backend"], file.attrs["keras_version"] = "tensorflow", "2.15.0"
        for layer, names in layers.items():
            group = file.require_group(layer)
            places = _places(layer, names)
            _put(group, "weight_names", list(places))
            for place, name in places.items():
                data = _dataset(group, place, state[name])
                data.attrs[NAME] = name
                if state[name].info.size_bytes:
                    offsets[name] = int(data.id.get_offset())
    return offsets


def _dataset(group: Any, place: str, tensor: Deferred) -> Any:
    import h5py
    from h5py import h5d, h5p, h5s

    code = NUMPY.get(tensor.dtype, f"V{tensor.dtype.itemsize}")
    made, links = h5p.create(h5p.DATASET_CREATE), h5p.create(h5p.LINK_CREATE)
    made.set_layout(h5d.CONTIGUOUS)
    made.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    made.set_fill_time(h5d.FILL_TIME_NEVER)
    links.set_create_intermediate_group(True)
    links.set_char_encoding(h5py.h5t.CSET_UTF8)
    space = h5s.create_simple(tensor.shape) if tensor.shape else h5s.create(h5s.SCALAR)
    kind = h5py.h5t.py_create(np.dtype(code), logical=True)
    identity = h5d.create(group.id, None, kind, space, made)
    h5py.h5o.link(identity, group.id, place.encode(), lcpl=links)
    data = h5py.Dataset(identity)
    if tensor.dtype in OPAQUE:
        data.attrs[DTYPE] = str(tensor.dtype).removeprefix("torch.")
    return data


def _layers(state: Mapping[str, Deferred]) -> dict[str, list[str]]:
    """Return the names of tensors by the layer that holds them: its last name where that is unique."""
    whole: dict[str, list[str]] = {}
    for name in state:
        whole.setdefault(_split(name)[0], []).append(name)
    short = [re.split(r"[/.]", path)[-1] for path in whole]
    layers: dict[str, list[str]] = {}
    for number, (path, names) in enumerate(whole.items()):
        last = short[number]
        layer = last if short.count(last) == 1 and _is_place(last) else path
        if not _is_place(layer) or layer in layers or any(_lie_over(layer, other) for other in layers):
            layer = f"layer_{number}"
        layers[layer] = names
    return layers


def _lie_over(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _places(layer: str, names: Sequence[str]) -> dict[str, str]:
    """Return the places of tensors in their layer's group, and their names."""
    found: dict[str, str] = {}
    for number, name in enumerate(names):
        place = f"{layer}/{_split(name)[1]}:0"
        if not _is_place(_split(name)[1]) or "/" in _split(name)[1] or place in found:
            place = f"{layer}/weight_{number}:0"
        while place in found:
            place = f"{place[:-2]}_:0"
        found[place] = name
    return found


def _split(name: str) -> tuple[str, str]:
    at = max(name.rfind("/"), name.rfind("."))
    return name[: max(at, 0)], name[at + 1 :]


def _is_place(text: str) -> bool:
    """Return whether HDF5 takes a text as a path of names."""
    return len(text) <= _LONGEST and "\0" not in text and all(part not in {"", ".", ".."} for part in text.split("/"))


def _is_text(name: str) -> bool:
    return "\0" not in name and name.encode("utf-8", "replace").decode() == name


def _put(group: Any, name: str, texts: Sequence[str]) -> None:
    """Write a list of texts as an attribute, in several where it is too long for one."""
    parts: list[list[bytes]] = [[]]
    width = 0
    for text in (text.encode() for text in texts):
        width = max(width, len(text))
        if parts[-1] and width * (len(parts[-1]) + 1) > _MOST_ATTRIBUTE_BYTES:
            parts.append([])
            width = len(text)
        parts[-1].append(text)
    if len(parts) == 1:
        group.attrs[name] = np.array(parts[0], dtype=f"S{max(width, 1)}")
        return
    for number, part in enumerate(parts):
        group.attrs[f"{name}{number}"] = np.array(part)
