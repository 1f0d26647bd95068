"""Arguments of the operators that the kernels know, by name, with PyTorch's defaults and without PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jumar.tune.graph import Node

_REQUIRED = object()
_WINDOW = {"kernel_size": _REQUIRED, "stride": [], "padding": 0}
_CONV = {"input": _REQUIRED, "weight": _REQUIRED, "bias": None, "stride": 1, "padding": 0, "dilation": 1, "groups": 1}

SIGNATURES: Mapping[str, Mapping[str, Any]] = {
    "aten::conv2d": _CONV,
    "aten::conv2d.padding": {**_CONV, "padding": "valid"},
    "aten::convolution": {
        **dict.fromkeys(("input", "weight", "bias", "stride", "padding", "dilation", "transposed"), _REQUIRED),
        **dict.fromkeys(("output_padding", "groups"), _REQUIRED),
    },
    "aten::linear": {"input": _REQUIRED, "weight": _REQUIRED, "bias": None},
    "aten::batch_norm": dict.fromkeys(
        ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps", "cudnn_enabled"),
        _REQUIRED,
    ),
    "aten::_native_batch_norm_legit_no_training": dict.fromkeys(
        ("input", "weight", "bias", "running_mean", "running_var", "momentum", "eps"), _REQUIRED
    ),
    "aten::relu": {"input": _REQUIRED},
    "aten::relu6": {"input": _REQUIRED},
    "aten::silu": {"input": _REQUIRED},
    "aten::sigmoid": {"input": _REQUIRED},
    "aten::hardswish": {"input": _REQUIRED},
    "aten::hardsigmoid": {"input": _REQUIRED},
    "aten::hardtanh": {"input": _REQUIRED, "min_val": -1, "max_val": 1},
    "aten::clamp": {"input": _REQUIRED, "min": None, "max": None},
    "aten::clamp_min": {"input": _REQUIRED, "min": _REQUIRED},
    "aten::max_pool2d": {"input": _REQUIRED, **_WINDOW, "dilation": 1, "ceil_mode": False},
    "aten::avg_pool2d": {
        "input": _REQUIRED, **_WINDOW, "ceil_mode": False, "count_include_pad": True, "divisor_override": None,
    },
    "aten::adaptive_avg_pool2d": {"input": _REQUIRED, "output_size": _REQUIRED},
    "aten::mean.dim": {"input": _REQUIRED, "dim": _REQUIRED, "keepdim": False, "dtype": None},
    "aten::cat": {"tensors": _REQUIRED, "dim": 0},
    "aten::chunk": {"input": _REQUIRED, "chunks": _REQUIRED, "dim": 0},
    "aten::split.Tensor": {"input": _REQUIRED, "split_size": _REQUIRED, "dim": 0},
    "aten::split_with_sizes": {"input": _REQUIRED, "split_sizes": _REQUIRED, "dim": 0},
    "aten::slice.Tensor": {"input": _REQUIRED, "dim": 0, "start": None, "end": None, "step": 1},
    "aten::view": {"input": _REQUIRED, "size": _REQUIRED},
    "aten::reshape": {"input": _REQUIRED, "size": _REQUIRED},
    "aten::flatten.using_ints": {"input": _REQUIRED, "start_dim": 0, "end_dim": -1},
    "aten::squeeze.dims": {"input": _REQUIRED, "dim": _REQUIRED},
    "aten::transpose.int": {"input": _REQUIRED, "dim0": _REQUIRED, "dim1": _REQUIRED},
    "aten::contiguous": {"input": _REQUIRED, "memory_format": None},
    "aten::clone": {"input": _REQUIRED, "memory_format": None},
    "aten::dropout": {"input": _REQUIRED, "p": _REQUIRED, "train": _REQUIRED},
    "aten::channel_shuffle": {"input": _REQUIRED, "groups": _REQUIRED},
    "aten::native_channel_shuffle": {"input": _REQUIRED, "groups": _REQUIRED},
    "aten::pad": {"input": _REQUIRED, "pad": _REQUIRED, "mode": "constant", "value": None},
    "aten::constant_pad_nd": {"input": _REQUIRED, "pad": _REQUIRED, "value": 0},
    "aten::add.Tensor": {"input": _REQUIRED, "other": _REQUIRED, "alpha": 1},
    "aten::sub.Tensor": {"input": _REQUIRED, "other": _REQUIRED, "alpha": 1},
    "aten::mul.Tensor": {"input": _REQUIRED, "other": _REQUIRED},
    "aten::mm": {"input": _REQUIRED, "mat2": _REQUIRED},
    "aten::matmul": {"input": _REQUIRED, "mat2": _REQUIRED},
    "aten::addmm": {"bias": _REQUIRED, "input": _REQUIRED, "mat2": _REQUIRED, "beta": 1, "alpha": 1},
    "aten::gelu": {"input": _REQUIRED, "approximate": "none"},
    "getitem": {"input": _REQUIRED, "index": _REQUIRED},
}  # fmt: skip


def named(node: Node) -> dict[str, Any] | None:
    """Return the arguments by name; None for an operator, or a way of calling it, that is not known here."""
    signature = SIGNATURES.get(node.operator)
    if signature is None or len(node.arguments) > len(signature):
        return None
    given = dict(zip(signature, node.arguments, strict=False))
    given.update({"input" if name == "self" else name: value for name, value in node.keywords.items()})
    if not set(given) <= set(signature):
        return None
    arguments = {**signature, **given}
    return None if _REQUIRED in arguments.values() else arguments


def value_of(argument: Any) -> int | None:
    """Return the number of the value that an argument is; None for anything else."""
    if isinstance(argument, dict) and "value" in argument:
        return int(argument["value"])
    return None


def pair(argument: Any) -> tuple[int, int]:
    """Return `3`, `[3]` or `[3, 5]` as two numbers."""
    numbers = argument if isinstance(argument, list) else [argument]
    return int(numbers[0]), int(numbers[-1])
