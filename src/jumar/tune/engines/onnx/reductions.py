"""Operators that sum, average or choose along dimensions, and those that normalise by such sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from jumar.tune.engines.onnx.draft import Draft, Value, axes_of, axis_of, operator, refuse


@operator("sum", "mean", "amax", "amin", "prod", "max", "min")
def _reduce(draft: Draft, self: Value, dim: Any = None, keepdim: bool = False, *, name: str, **_: Any) -> str:
    if not self.rank:
        return draft.cast(self, draft.out[0].dtype)
    kinds = {"sum": "Sum", "mean": "Mean", "prod": "Prod", "amax": "Max", "max": "Max", "amin": "Min", "min": "Min"}
    dtype = draft.out[0].dtype
    if dtype is torch.bool:
        raise refuse(f"{name} of booleans")
    return _reduced(draft, f"Reduce{kinds[name]}", draft.cast(self, dtype), axes_of(dim, self.rank), keepdim)


def _reduced(draft: Draft, kind: str, name: str, axes: Sequence[int], keepdim: bool) -> str:
    return draft.add(kind, name, draft.integers(axes), keepdims=int(keepdim))


@operator("var", "std")
def _variance(
    draft: Draft, self: Value, dim: Any = None, unbiased: bool = True, *, correction: float | None = None,
    keepdim: bool = False, name: str,
) -> str:  # fmt: skip
    if isinstance(dim, bool):  # the overload without dimensions
        dim, unbiased = None, dim
    axes = axes_of(dim, self.rank)
    count = torch.Size([self.shape[axis] for axis in axes]).numel()
    divisor = count - (float(unbiased) if correction is None else float(correction))
    if divisor <= 0 or not self.rank:
        raise refuse("the variance of one element")
    centred = draft.add("Sub", self.name, _reduced(draft, "ReduceMean", self.name, axes, True))
    mean = _reduced(draft, "ReduceMean", draft.add("Mul", centred, centred), axes, keepdim)
    made = draft.add("Mul", mean, draft.number(count / divisor, self.dtype))
    return draft.add("Sqrt", made) if name == "std" else made


@operator("any", "all")
def _any(draft: Draft, self: Value, dim: Any = None, keepdim: bool = False, *, name: str) -> str:
    kind = "ReduceMax" if name == "any" else "ReduceMin"
    number = draft.convert(draft.cast(self, torch.bool), torch.int32)
    return draft.convert(_reduced(draft, kind, number, axes_of(dim, self.rank), keepdim), torch.bool)


@operator("max.dim", "min.dim")
def _max_dim(draft: Draft, self: Value, dim: int, keepdim: bool = False, *, name: str) -> list[str]:
    axis = axis_of(dim, self.rank)
    kind = "Max" if name.startswith("max") else "Min"
    value = _reduced(draft, f"Reduce{kind}", self.name, [axis], keepdim)
    return [value, draft.add(f"Arg{kind}", self.name, axis=axis, keepdims=int(keepdim))]


@operator("argmax", "argmin")
def _argmax(draft: Draft, self: Value, dim: int | None = None, keepdim: bool = False, *, name: str) -> str:
    kind = "ArgMax" if name == "argmax" else "ArgMin"
    if dim is not None and self.rank:
        return draft.add(kind, self.name, axis=axis_of(dim, self.rank), keepdims=int(keepdim))
    return draft.reshape(draft.add(kind, draft.reshape(self.name, [-1]), axis=0, keepdims=0), draft.out[0].shape)


@operator("cumsum")
def _cumsum(draft: Draft, self: Value, dim: int, **_: Any) -> str:
    if not self.rank:
        return draft.cast(self, draft.out[0].dtype)
    return draft.add("CumSum", draft.cast(self, draft.out[0].dtype), draft.number(dim, torch.int64))


@operator("softmax", "_softmax", "log_softmax", "_log_softmax")
def _softmax(draft: Draft, self: Value, dim: int, *, name: str, **_: Any) -> str:
    if not self.rank:
        raise refuse("softmax of a scalar")
    kind = "LogSoftmax" if "log" in name else "Softmax"
    return draft.add(kind, draft.cast(self, draft.out[0].dtype), axis=axis_of(dim, self.rank))


@operator("topk")
def _topk(draft: Draft, self: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> list[str]:
    if not self.rank or not self.is_float:  # equal integers are common, and which of them is meant is nobody's rule
        raise refuse("topk of a scalar or of integers")
    axis = axis_of(dim, self.rank)
    return draft.several(
        "TopK", self.name, draft.integers([k]), outputs=2, axis=axis, largest=int(largest), sorted=int(sorted)
    )


@operator("layer_norm")
def _layer_norm(
    draft: Draft, input: Value, normalized_shape: Sequence[int], weight: Value | None = None,
    bias: Value | None = None, eps: float = 1e-5, **_: Any,
) -> str:  # fmt: skip
    return _layer_norms(draft, input, len(normalized_shape), weight, bias, eps, 1)[0]


@operator("native_layer_norm")
def _native_layer_norm(
    draft: Draft, input: Value, normalized_shape: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> list[str]:
    if input.dtype is not torch.float32:
        raise refuse("the statistics of a normalisation in fewer bits")
    return _layer_norms(draft, input, len(normalized_shape), weight, bias, eps, 3)


def _layer_norms(
    draft: Draft, x: Value, rank: int, weight: Value | None, bias: Value | None, eps: float, outputs: int
) -> list[str]:
    shape = x.shape[x.rank - rank :]
    scale = draft.constant(torch.ones(shape, dtype=x.dtype)) if weight is None else draft.cast(weight, x.dtype)
    offset = [] if bias is None else [draft.cast(bias, x.dtype)]
    return draft.several("LayerNormalization", x.name, scale, *offset, outputs=outputs, axis=-rank, epsilon=float(eps))


@operator("rms_norm")
def _rms_norm(
    draft: Draft, input: Value, normalized_shape: Sequence[int], weight: Value | None = None, eps: float | None = None
) -> str:
    axes = list(range(input.rank - len(normalized_shape), input.rank))
    epsilon = torch.finfo(input.dtype).eps if eps is None else eps
    mean = _reduced(draft, "ReduceMean", draft.add("Mul", input.name, input.name), axes, True)
    root = draft.add("Sqrt", draft.add("Add", mean, draft.number(epsilon, input.dtype)))
    made = draft.add("Div", input.name, root)
    return made if weight is None else draft.add("Mul", made, weight.name)


@operator("batch_norm", "_native_batch_norm_legit_no_training", "native_batch_norm", "_native_batch_norm_legit")
def _batch_norm(draft: Draft, input: Value, weight: Value | None, bias: Value | None, **rest: Any) -> str | list[str]:
    mean, variance = rest.get("running_mean"), rest.get("running_var")
    if rest.get("training") or mean is None or variance is None:
        raise refuse("a batch normalisation that learns")
    channels = input.shape[1]
    scale = draft.constant(torch.ones(channels)) if weight is None else weight.name
    offset = draft.constant(torch.zeros(channels)) if bias is None else bias.name
    made = draft.add(
        "BatchNormalization", input.name, scale, offset, mean.name, variance.name, epsilon=float(rest["eps"])
    )
    empty = [draft.constant(torch.zeros(out.shape, dtype=out.dtype)) for out in draft.out[1:]]
    if any(0 not in out.shape for out in draft.out[1:]):
        raise refuse("the statistics of a batch normalisation")
    return [made, *empty]


@operator("group_norm", "native_group_norm")
def _group_norm(draft: Draft, **given: Any) -> str:
    x: Value = given.get("input") or given["self"]
    groups = given.get("num_groups", given.get("group"))
    if len(draft.out) > 1 or not isinstance(groups, int):
        raise refuse("the statistics of a group normalisation")
    batch, channels = x.shape[:2]
    flat = draft.reshape(x.name, [batch, groups, -1])
    ones, zeros = (draft.constant(torch.full((groups,), fill, dtype=x.dtype)) for fill in (1.0, 0.0))
    made = draft.add("InstanceNormalization", flat, ones, zeros, epsilon=float(given.get("eps", 1e-5)))
    made = draft.reshape(made, x.shape)
    column = [channels, *([1] * (x.rank - 2))]
    for kind, value in (("Mul", given.get("weight")), ("Add", given.get("bias"))):
        made = made if value is None else draft.add(kind, made, draft.reshape(value.name, column))
    return made
