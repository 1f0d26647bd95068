"""ONNX operators that move elements without computing with them."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from jumar.tune.graph.from_onnx.call import Call, Value, as_tensor, computes, dtype_of
from jumar.tune.model.errors import TuneError

_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
"""What ONNX calls the reductions of a scatter, and what PyTorch does."""


@computes("Shape")
def _shape(call: Call) -> np.ndarray:
    shape = np.array(call.tensor(0).shape, dtype=np.int64)
    return shape[call.attribute("start", 0) : call.attribute("end", len(shape))]


@computes("Size")
def _size(call: Call) -> np.ndarray:
    return np.array(call.tensor(0).numel(), dtype=np.int64)


@computes("Reshape")
def _reshape(call: Call) -> torch.Tensor:
    source, sizes = call.tensor(0), call.ints_of("shape", 1) or []
    if not call.attribute("allowzero", 0):
        sizes = [source.shape[place] if size == 0 else size for place, size in enumerate(sizes)]
    return source.reshape(sizes)


@computes("Flatten")
def _flatten(call: Call) -> torch.Tensor:
    source, axis = call.tensor(0), call.attribute("axis", 1)
    axis = axis + source.dim() if axis < 0 else axis
    if axis == 1 and source.dim() > 1:
        return torch.flatten(source, 1)
    first = int(np.prod(source.shape[:axis], dtype=np.int64))
    return source.reshape(first, -1) if source.numel() else source.reshape(first, int(np.prod(source.shape[axis:])))


@computes("Transpose")
def _transpose(call: Call) -> torch.Tensor:
    source = call.tensor(0)
    order = call.attribute("perm") or list(range(source.dim()))[::-1]
    return source.permute(list(order))


@computes("Concat")
def _concat(call: Call) -> torch.Tensor:
    return torch.cat([call.tensor(place) for place in range(len(call.inputs))], call.attribute("axis"))


@computes("Split")
def _split(call: Call) -> tuple[torch.Tensor, ...]:
    source, axis = call.tensor(0), call.attribute("axis", 0)
    sizes = call.ints_of("split", 1)
    if sizes is None:
        count = call.attribute("num_outputs", call.num_outputs)
        each = -(-source.shape[axis] // count)
        return torch.split(source, each, axis)
    return torch.split(source, sizes, axis)


@computes("Slice")
def _slice(call: Call) -> torch.Tensor:
    source = call.tensor(0)
    starts, ends = call.ints_of("starts", 1) or [], call.ints_of("ends", 2) or []
    axes = call.ints_of("axes", 3) or list(range(len(starts)))
    steps = call.ints(4) if call.has(4) else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        places = range(*slice(start, end, step).indices(source.shape[axis]))
        if step > 0:
            first, last = (places[0], places[-1] + 1) if places else (0, 0)
            source = source[(slice(None),) * (axis % source.dim()) + (slice(first, last, step),)]
        else:
            source = torch.index_select(source, axis, torch.tensor(list(places), dtype=torch.int64))
    return source


@computes("Gather")
def _gather(call: Call) -> torch.Tensor:
    source, axis = call.tensor(0), call.attribute("axis", 0)
    places = call.inputs[1]
    if isinstance(places, np.ndarray) and places.ndim == 0:
        return torch.select(source, axis, int(places))
    index = call.tensor(1)
    if axis == 0 and source.dim() == 2 and source.is_floating_point():
        return functional.embedding(_positive(index, source.shape[0], places), source)
    flat = torch.index_select(source, axis, _positive(index, source.shape[axis], places).reshape(-1))
    axis %= source.dim()
    return flat.reshape([*source.shape[:axis], *index.shape, *source.shape[axis + 1 :]])


def _positive(index: torch.Tensor, size: int, known: Value) -> torch.Tensor:
    """Return indices of which none counts from the end."""
    if isinstance(known, np.ndarray) and (known.size == 0 or known.min() >= 0):
        return index
    return torch.where(index < 0, index + size, index)


@computes("GatherElements")
def _gather_elements(call: Call) -> torch.Tensor:
    source, axis = call.tensor(0), call.attribute("axis", 0)
    return torch.gather(source, axis, _positive(call.tensor(1), source.shape[axis], call.inputs[1]))


@computes("GatherND")
def _gather_nd(call: Call) -> torch.Tensor:
    if call.attribute("batch_dims", 0):
        raise TuneError(f"{call} has batch_dims, which is not converted so far.")
    return call.tensor(0)[tuple(call.tensor(1).unbind(-1))]


@computes("ScatterElements")
def _scatter_elements(call: Call) -> torch.Tensor:
    source, axis = call.tensor(0), call.attribute("axis", 0)
    index, kind = _positive(call.tensor(1), source.shape[axis], call.inputs[1]), call.attribute("reduction", "none")
    if kind == "none":
        return torch.scatter(source, axis, index, call.tensor(2))
    return torch.scatter_reduce(source, axis, index, call.tensor(2), _REDUCTIONS[kind])


@computes("Squeeze")
def _squeeze(call: Call) -> torch.Tensor:
    axes, source = call.ints_of("axes", 1), call.tensor(0)
    if axes is None:
        return source.squeeze()
    return source.squeeze(axes[0]) if len(axes) == 1 else source.squeeze(tuple(axes))


@computes("Unsqueeze")
def _unsqueeze(call: Call) -> torch.Tensor:
    source, axes = call.tensor(0), call.ints_of("axes", 1) or []
    rank = source.dim() + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        source = source.unsqueeze(axis)
    return source


@computes("Expand")
def _expand(call: Call) -> torch.Tensor:
    source = call.tensor(0)
    return source.expand(np.broadcast_shapes(tuple(source.shape), tuple(call.ints(1))))


@computes("Tile")
def _tile(call: Call) -> torch.Tensor:
    return call.tensor(0).repeat(call.ints(1))


@computes("Pad")
def _pad(call: Call) -> torch.Tensor:
    source = call.tensor(0)
    pads = call.ints_of("pads", 1) or []
    axes = [axis % source.dim() for axis in (call.ints(3) if call.has(3) else range(source.dim()))]
    around = {axis: (pads[place], pads[place + len(axes)]) for place, axis in enumerate(axes)}
    first = min((axis for axis in around if any(around[axis])), default=source.dim())
    flat = [size for axis in range(source.dim() - 1, first - 1, -1) for size in around.get(axis, (0, 0))]
    mode = call.attribute("mode", "constant")
    if not flat:
        return source
    if mode == "constant":
        value = call.number(2) if call.has(2) else call.attribute("value", 0.0)
        return functional.pad(source, flat, "constant", value)
    names = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    return functional.pad(source, flat, names[mode])


@computes("DepthToSpace")
def _depth_to_space(call: Call) -> torch.Tensor:
    source, block = call.tensor(0), call.attribute("blocksize")
    if call.attribute("mode", "DCR") == "CRD":
        return functional.pixel_shuffle(source, block)
    batch, channels, height, width = source.shape
    apart = source.reshape(batch, block, block, channels // block**2, height, width)
    return apart.permute(0, 3, 4, 1, 5, 2).reshape(batch, channels // block**2, height * block, width * block)


@computes("SpaceToDepth")
def _space_to_depth(call: Call) -> torch.Tensor:
    source, block = call.tensor(0), call.attribute("blocksize")
    if call.attribute("mode", "DCR") != "DCR":
        raise TuneError(f"{call} has mode {call.attribute('mode')}, which is not converted so far.")
    batch, channels, height, width = source.shape
    apart = source.reshape(batch, channels, height // block, block, width // block, block)
    return apart.permute(0, 3, 5, 1, 2, 4).reshape(batch, channels * block**2, height // block, width // block)


@computes("ConstantOfShape")
def _constant_of_shape(call: Call) -> np.ndarray:
    value = call.attribute("value")
    filler = np.float32(0) if value is None else value.reshape(-1)[0]
    return np.full(call.ints(0), filler)


@computes("Range")
def _range(call: Call) -> np.ndarray:
    start, limit, step = (call.known(place).reshape(-1)[0] for place in range(3))
    return np.arange(start, limit, step, dtype=call.known(0).dtype)


@computes("Trilu")
def _trilu(call: Call) -> torch.Tensor:
    shift = int(call.number(1)) if call.has(1) else 0
    return (torch.triu if call.attribute("upper", 1) else torch.tril)(call.tensor(0), shift)


@computes("OneHot")
def _one_hot(call: Call) -> torch.Tensor:
    depth = int(call.number(1))
    off, on = call.known(2).reshape(-1)
    index = call.tensor(0).to(torch.int64)
    hot = torch.where(index < 0, index + depth, index).unsqueeze(-1) == torch.arange(depth)
    made = torch.where(hot, as_tensor(np.asarray(on)), as_tensor(np.asarray(off)))
    axis = call.attribute("axis", -1)
    return made if axis in {-1, made.dim() - 1} else made.movedim(-1, axis)


@computes("ScatterND")
def _scatter_nd(call: Call) -> torch.Tensor:
    source, index, updates = (call.tensor(place) for place in range(3))
    kind = call.attribute("reduction", "none")
    if kind in {"none", "add"}:
        return torch.index_put(source, tuple(index.unbind(-1)), updates, accumulate=kind == "add")
    outer = source.shape[: index.shape[-1]]
    places = torch.zeros_like(index[..., 0])
    for axis, size in enumerate(outer):
        places = places * size + _positive(index[..., axis], size, None)
    rows = source.reshape(int(np.prod(outer, dtype=np.int64)), -1)
    values = updates.reshape(-1, rows.shape[1])
    which = places.reshape(-1, 1).expand(values.shape)
    return torch.scatter_reduce(rows, 0, which, values, _REDUCTIONS[kind]).reshape(source.shape)


@computes("EyeLike")
def _eye_like(call: Call) -> np.ndarray:
    source, code = call.tensor(0), call.attribute("dtype")
    kind = source.dtype if code is None else dtype_of(code)
    name = str(kind).removeprefix("torch.")
    if not hasattr(np, name):
        raise TuneError(f"{call} makes {name}, which is not converted so far.")
    rows, columns = source.shape
    return np.eye(rows, columns, int(call.attribute("k", 0)), dtype=np.dtype(name))


@computes("NonZero")
def _non_zero(call: Call) -> np.ndarray:
    return np.array(np.nonzero(call.known(0)), dtype=np.int64)
