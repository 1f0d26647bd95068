"""An ONNX model on disk that borrows the weights it is given: only what was made from them is in the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from onnx import ModelProto, TensorProto, helper

from jumar.tune.engines.onnx.draft import dtype_of
from jumar.tune.engines.onnx.model import Written
from jumar.tune.graph import Reference

MODEL = "graph.onnx"
WEIGHTS = "weights.json"
BORROWED = "weights"
LARGEST_MODEL_BYTES = 1_900_000_000
"""A protobuf message ends at 2 GiB."""


def save(written: Written, constants: Mapping[Reference, torch.Tensor], folder: Path) -> None:
    """Leave model and list of borrowed weights in `folder`."""
    places = {id(tensor): place for place, tensor in constants.items()}
    borrowed = {
        name: places[id(tensor)]
        for name, tensor in written.initialisers.items()
        if id(tensor) in places and tensor.dtype is not torch.bfloat16  # which NumPy, and so the session, has not
    }
    (folder / MODEL).write_bytes(_with_initialisers(written, set(borrowed)).SerializeToString())
    (folder / WEIGHTS).write_text(json.dumps(borrowed), "utf-8")


def borrowed(folder: Path, constants: Mapping[Reference, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the borrowed weights by their name in the model."""
    places: dict[str, int] = json.loads((folder / WEIGHTS).read_text("utf-8"))
    return {name: constants[place] for name, place in places.items()}


def whole(written: Written) -> bytes:
    """Return the model with all its weights."""
    model: bytes = _with_initialisers(written, set()).SerializeToString()
    return model


def size_bytes(written: Written) -> int:
    """Return how much memory the initialisers take."""
    return sum(tensor.nbytes for tensor in written.initialisers.values())


def _with_initialisers(written: Written, outside: set[str]) -> ModelProto:
    model = ModelProto()
    model.CopyFrom(written.model)
    model.graph.initializer.extend(
        _external(name, tensor) if name in outside else _raw(name, tensor)
        for name, tensor in written.initialisers.items()
    )
    return model


def _raw(name: str, tensor: torch.Tensor) -> TensorProto:
    values = tensor.detach().contiguous()
    raw = values.reshape(-1).view(torch.uint8).numpy().tobytes() if values.numel() else b""
    return helper.make_tensor(name, dtype_of(tensor.dtype), list(tensor.shape), raw, raw=True)


def _external(name: str, tensor: torch.Tensor) -> TensorProto:
    made = TensorProto(name=name, data_type=dtype_of(tensor.dtype), dims=list(tensor.shape))
    made.data_location = TensorProto.EXTERNAL
    for key, value in (("location", BORROWED), ("offset", "0"), ("length", str(tensor.nbytes))):
        made.external_data.add(key=key, value=value)
    return made
