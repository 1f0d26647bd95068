"""An operator overload by its name: what PyTorch calls, its arguments, and the tensors in them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from jumar.operators import parse

Tensor = torch.Tensor


def overload_of(name: str) -> Any:
    """Return the overload of `torch.ops` that is called `aten::add.Tensor`; without a namespace it is aten's."""
    namespace, base, overload = parse(name)
    return getattr(getattr(getattr(torch.ops, namespace or "aten"), base), overload or "default")


@functools.cache
def arguments_of(name: str) -> tuple[Any, ...]:
    """Return the arguments in an overload's schema; none for one that has no schema, as a backward in Python."""
    base, _, overload = name.partition(".")
    try:
        return tuple(torch._C._get_schema(base, overload).arguments)
    except RuntimeError:
        return ()


def written_by(name: str) -> dict[int, str]:
    """Return position → name of the arguments that an overload writes."""
    return {
        position: argument.name
        for position, argument in enumerate(arguments_of(name))
        if argument.alias_info is not None and argument.alias_info.is_write
    }


def tensors_in(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors among these values, and those in lists and tuples of them."""
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def dense_parts(tensor: Tensor) -> list[Tensor]:
    """Return the strided tensors that hold a tensor's memory: itself, or the indices and values of a sparse one."""
    if tensor.layout is torch.strided:
        return [tensor]
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return []


def size_bytes(tensor: Tensor) -> int:
    """Return the bytes of a tensor's elements, of any layout; a sparse tensor has its indices and values."""
    return sum(part.nbytes for part in dense_parts(tensor))
