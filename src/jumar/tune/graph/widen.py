"""A graph computed in a wider dtype: what candidates are judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from jumar.findings import Json
from jumar.tune.graph.graph import Graph

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_COMPLEX = ("complex32", "complex64", "complex128")
_REINTERPRETING = "aten::view.dtype"


def widened(graph: Graph, dtype: str) -> Graph | None:
    """Return `graph` with the floating-point dtypes that its operators name replaced by `dtype`.

    None when an operator looks at the bits of a number, so that a wider one is another computation. The inputs'
    specs stay as they are.
    """
    if any(node.operator == _REINTERPRETING for node in graph.nodes):
        return None
    return replace(graph, nodes=[node.changed(lambda argument: _wider(argument, dtype)) for node in graph.nodes])


def widened_tensors(tensors: Mapping[int, torch.Tensor], dtype: torch.dtype) -> dict[int, torch.Tensor]:
    """Return the tensors with the floating-point ones converted."""
    return {place: widened_tensor(tensor, dtype) for place, tensor in tensors.items()}


def widened_tensor(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the tensor in `dtype`, or the complex dtype of that precision; integers stay."""
    if tensor.is_complex():
        return tensor.to(torch.complex128 if dtype is torch.float64 else torch.complex64)
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def _wider(argument: Json, dtype: str) -> Json:
    if isinstance(argument, list):
        return [_wider(item, dtype) for item in argument]
    if isinstance(argument, dict) and (named := argument.get("dtype")) in (*_FLOATS, *_COMPLEX):
        complex_dtype = "complex128" if dtype == "float64" else "complex64"
        return {"dtype": complex_dtype if named in _COMPLEX else dtype}
    return argument
