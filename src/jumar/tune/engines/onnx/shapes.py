"""Operators that move elements: shapes, slices, joins, look-ups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from jumar.tune.engines.onnx.draft import Draft, Value, axis_of, listed, operator, refuse

END = 2**63 - 1


@operator(
    "view", "_unsafe_view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "view_copy", "_reshape_copy",
    "channel_squeeze",
)  # fmt: skip
def _reshape(draft: Draft, self: Value, **_: Any) -> str:
    if draft.out[0].dtype != self.dtype:
        raise refuse("a view as another dtype")
    return draft.reshape(self.name, draft.out[0].shape)


@operator("permute", "permute_copy")
def _permute(draft: Draft, self: Value, dims: Sequence[int]) -> str:
    return draft.add("Identity", draft.permute(self.name, [axis_of(dim, self.rank) for dim in dims]))


@operator("transpose", "t", "swapaxes", "transpose_copy", "numpy_T", "mT")
def _transpose(draft: Draft, self: Value, dim0: int = 0, dim1: int = 1, *, name: str) -> str:
    order = list(range(self.rank))
    if name in {"numpy_T"}:
        order.reverse()
    elif self.rank > 1:
        first, second = (-2, -1) if name == "mT" else (dim0, dim1)
        first, second = axis_of(first, self.rank), axis_of(second, self.rank)
        order[first], order[second] = order[second], order[first]
    return draft.add("Identity", draft.permute(self.name, order))


@operator("expand", "expand_copy")
def _expand(draft: Draft, self: Value, **_: Any) -> str:
    return draft.add("Expand", self.name, draft.integers(draft.out[0].shape))


@operator("repeat", "tile")
def _repeat(draft: Draft, self: Value, **rest: Any) -> str:
    times = list(rest.get("repeats", rest.get("dims", ())))
    times = [1] * (self.rank - len(times)) + times
    shape = [1] * (len(times) - self.rank) + list(self.shape)
    return draft.add("Tile", draft.reshape(self.name, shape), draft.integers(times))


@operator("slice", "slice_copy")
def _slice(
    draft: Draft, self: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> str:
    return draft.slice(self.name, axis_of(dim, self.rank), start or 0, END if end is None else end, step)


@operator("narrow")
def _narrow(draft: Draft, self: Value, dim: int, start: int, length: int) -> str:
    axis = axis_of(dim, self.rank)
    start += self.shape[axis] if start < 0 else 0
    return draft.slice(self.name, axis, start, start + length)


@operator("select", "select_copy")
def _select(draft: Draft, self: Value, dim: int, index: int) -> str:
    return draft.add("Gather", self.name, draft.number(index, torch.int64), axis=axis_of(dim, self.rank))


@operator("split", "chunk", "split_with_sizes", "unbind", "tensor_split", "split_copy", "unbind_copy")
def _split(draft: Draft, self: Value, dim: int = 0, *, name: str, **_: Any) -> list[str]:
    axis = axis_of(dim, self.rank)
    unbound = name.startswith("unbind")
    sizes = [1 if unbound else out.shape[axis] for out in draft.out]
    parts = draft.several("Split", self.name, draft.integers(sizes), outputs=len(sizes), axis=axis)
    return [draft.reshape(part, out.shape) for part, out in zip(parts, draft.out, strict=True)] if unbound else parts


@operator("cat", "concat")
def _cat(draft: Draft, tensors: Sequence[Value], dim: int = 0) -> str:
    kept = [value for value in tensors if value.shape != (0,)]
    if not kept:
        raise refuse("a join of nothing")
    return draft.add(
        "Concat", *(draft.cast(value, draft.out[0].dtype) for value in kept), axis=axis_of(dim, kept[0].rank)
    )


@operator("stack")
def _stack(draft: Draft, tensors: Sequence[Value], dim: int = 0) -> str:
    axis = axis_of(dim, tensors[0].rank + 1)
    shape = [*tensors[0].shape[:axis], 1, *tensors[0].shape[axis:]]
    parts = [draft.reshape(draft.cast(value, draft.out[0].dtype), shape) for value in tensors]
    return draft.add("Concat", *parts, axis=axis)


@operator("constant_pad_nd", "pad")
def _pad(draft: Draft, self: Value, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> str:
    if mode not in {"constant", "reflect", "replicate"} or (mode != "constant" and min(pad) < 0):
        raise refuse(f"{mode} padding")
    if not self.is_float and self.dtype not in {torch.int64, torch.int32}:
        raise refuse(f"padding of {self.dtype}")
    num = len(pad) // 2
    before = [0] * (self.rank - num) + [pad[2 * place] for place in reversed(range(num))]
    after = [0] * (self.rank - num) + [pad[2 * place + 1] for place in reversed(range(num))]
    names = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}
    filled = [draft.number(value or 0, self.dtype)] if mode == "constant" else []
    return draft.add("Pad", self.name, draft.integers([*before, *after]), *filled, mode=names[mode])


@operator("flip")
def _flip(draft: Draft, self: Value, dims: Sequence[int]) -> str:
    made = self.name
    for dim in dims:
        made = draft.slice(made, axis_of(dim, self.rank), -1, -END, -1)
    return draft.add("Identity", made)


@operator("roll")
def _roll(draft: Draft, self: Value, shifts: Any, dims: Any = ()) -> str:
    shifts, dims = listed(shifts, 1), listed(dims, 1) if dims not in ((), []) else []
    made = self.name
    if not dims:
        made, size = draft.reshape(made, [-1]), draft.out[0].shape
        made = _rolled(draft, made, 0, shifts[0], torch.Size(size).numel())
        return draft.reshape(made, size)
    for shift, dim in zip(shifts, dims, strict=True):
        axis = axis_of(dim, self.rank)
        made = _rolled(draft, made, axis, shift, self.shape[axis])
    return draft.add("Identity", made)


def _rolled(draft: Draft, name: str, axis: int, shift: int, length: int) -> str:
    cut = (length - shift) % length
    return draft.add("Concat", draft.slice(name, axis, cut, END), draft.slice(name, axis, 0, cut), axis=axis)


@operator("embedding")
def _embedding(draft: Draft, weight: Value, indices: Value, **_: Any) -> str:
    return draft.add("Gather", weight.name, indices.name, axis=0)


@operator("index_select")
def _index_select(draft: Draft, self: Value, dim: int, index: Value) -> str:
    if not self.rank or not index.rank:
        raise refuse("index_select of a scalar")
    return draft.add("Gather", self.name, index.name, axis=axis_of(dim, self.rank))


@operator("gather")
def _gather(draft: Draft, self: Value, dim: int, index: Value, **_: Any) -> str:
    if not self.rank or not index.rank:
        raise refuse("gather of a scalar")
    return draft.add("GatherElements", self.name, index.name, axis=axis_of(dim, self.rank))


@operator("index")
def _index(draft: Draft, self: Value, indices: Sequence[Value | None]) -> str:
    """Several index tensors: those dimensions go first, are looked up together, and return to their place."""
    given = [(place, index) for place, index in enumerate(indices) if index is not None]
    if any(index.dtype not in {torch.int64, torch.int32} for _, index in given):
        raise refuse("an index of booleans, whose output's shape depends on values")
    places = [place for place, _ in given]
    rest = [place for place in range(self.rank) if place not in places]
    shape = torch.broadcast_shapes(*(index.shape for _, index in given))  # type: ignore[no-untyped-call]
    if len(given) == 1:
        return draft.add("Gather", self.name, draft.cast(given[0][1], torch.int64), axis=places[0])
    moved = draft.permute(self.name, [*places, *rest])
    columns = [
        draft.reshape(draft.add("Expand", draft.cast(index, torch.int64), draft.integers(shape)), [*shape, 1])
        for _, index in given
    ]
    made = draft.add("GatherND", moved, draft.add("Concat", *columns, axis=-1))
    if places == list(range(places[0], places[0] + len(places))):
        order = [*range(len(shape), len(shape) + places[0]), *range(len(shape))]
        made = draft.permute(made, [*order, *range(len(shape) + places[0], len(shape) + len(rest))])
    return made


@operator("tril", "triu")
def _triangle(draft: Draft, self: Value, diagonal: int = 0, *, name: str) -> str:
    if not self.is_float:
        raise refuse("a triangle of integers")
    return draft.add("Trilu", self.name, draft.number(diagonal, torch.int64), upper=int(name == "triu"))


@operator("pixel_shuffle")
def _pixel_shuffle(draft: Draft, self: Value, upscale_factor: int) -> str:
    if self.rank != 4:
        raise refuse("a pixel shuffle of other than four dimensions")
    return draft.add("DepthToSpace", self.name, blocksize=upscale_factor, mode="CRD")


@operator("channel_shuffle")
def _channel_shuffle(draft: Draft, self: Value, groups: int) -> str:
    batch, channels, *rest = self.shape
    made = draft.reshape(self.name, [batch, groups, channels // groups, *rest])
    made = draft.permute(made, [0, 2, 1, *range(3, 3 + len(rest))])
    return draft.reshape(made, self.shape)
