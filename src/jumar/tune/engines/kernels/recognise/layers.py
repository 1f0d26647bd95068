"""Convolutions, linear layers and products with a constant matrix as steps, and the arguments of operators by name.

Arguments are read with PyTorch's defaults and without PyTorch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from jumar.tune.engines.kernels.recognise.steps import Channels, Conv, Step, Steps
from jumar.tune.graph import Graph, Node, Reference

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


class Context:
    """What is known of a graph while its nodes are read, in order."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps = Steps()
        self.made: dict[Reference, int] = {}
        self.uses = Counter(value for node in graph.nodes for value in node.references())
        self.uses.update(value for value in graph.outputs if value is not None)
        self.pads: dict[Reference, tuple[Reference, tuple[int, int, int, int]]] = {}
        self.several: dict[Reference, list[Channels]] = {}
        self.done: set[Reference] = set()
        self.flat: set[Reference] = set()
        self.direct: dict[Reference, Reference] = {}

    def shape(self, value: Reference) -> tuple[int, ...]:
        """Return the shape of a value; empty for what is no float32 tensor."""
        spec = self.graph.spec_of(value) if self.graph.values else None
        return spec.shape if spec is not None and spec.dtype == "float32" and all(spec.shape) else ()

    def images(self, *values: Reference) -> bool:
        """Tell whether all are images (4 dimensions) or rows (2) that are no image's pixels one after the other."""
        return all(len(self.shape(value)) in {2, 4} and value not in self.flat for value in values)

    def is_constant(self, value: Reference | None) -> bool:
        """Tell whether it is a float32 weight, or absent."""
        if value is None:
            return True
        return value < len(self.graph.inputs) and self.graph.inputs[value].constant and bool(self.shape(value))

    def add(self, step: Step) -> bool:
        """Append a step."""
        self.made[step.output] = len(self.steps.steps)
        self.steps.steps.append(step)
        return True

    def alias(self, place: Reference, value: Reference) -> bool:
        """Note that a value is another one, unchanged or in another shape."""
        self.steps.aliases[place] = self.steps.value(value)
        self.direct[place] = value
        return True

    def alone(self, value: Reference) -> Step | None:
        """Return the step that makes `value` when nothing but the node at hand reads it."""
        while self.uses[value] == 1 and value not in self.flat:
            if value in self.made:
                return self.steps.steps[self.made[value]]
            if value not in self.direct:
                return None
            value = self.direct[value]
        return None

    def moved(self, step: Step, place: Reference) -> bool:
        """The step makes the value at `place` now."""
        self.made[place] = self.made.pop(step.output)
        step.output = place
        return True


Arguments = dict[str, Any]


class Layers(Context):
    """Reads what has weights. Every reader returns whether it took the node."""

    def conv(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read a convolution of two dimensions."""
        source, weight, bias = value_of(given["input"]), value_of(given["weight"]), value_of(given["bias"])
        if source is None or weight is None or given.get("transposed") or not self.is_constant(weight):
            return False
        if not self.is_constant(bias) or len(self.shape(source)) != 4 or not self.shape(place):
            return False
        out, _, height, width = self.shape(weight)
        dilation = pair(given["dilation"])
        sides = _padding(given["padding"], (height, width), dilation)
        source = self.steps.value(source)
        if source in self.pads:
            source, more = self.pads[source]
            sides = tuple(a + b for a, b in zip(sides, more, strict=True))  # type: ignore[assignment]
        return self.add(
            Conv(
                inputs=[source], output=place, weight=weight, bias=bias, stride=pair(given["stride"]), padding=sides,
                dilation=dilation, groups=int(given["groups"]), kernel=(height, width),
                channels=(self.shape(source)[1], out),
            )
        )  # fmt: skip

    def linear(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read a linear layer of rows."""
        source, weight, bias = value_of(given["input"]), value_of(given["weight"]), value_of(given["bias"])
        if source is None or weight is None or not self.is_constant(weight) or not self.is_constant(bias):
            return False
        if len(self.shape(source)) != 2 or len(self.shape(weight)) != 2 or not self.shape(place):
            return False
        out, features = self.shape(weight)
        if bias is not None and self.shape(bias) != (out,):
            return False
        source = self.steps.value(source)
        return self.add(Conv(inputs=[source], output=place, weight=weight, bias=bias, channels=(features, out)))

    def product(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read a product with a constant matrix, with a constant row added or none."""
        source, weight, bias = value_of(given["input"]), value_of(given["mat2"]), value_of(given.get("bias"))
        if source is None or weight is None or not self.is_constant(weight) or not self.is_constant(bias):
            return False
        if (
            len(self.shape(source)) != 2
            or not self.shape(place)
            or (given.get("beta", 1), given.get("alpha", 1)) != (1, 1)
        ):
            return False
        if len(self.shape(weight)) != 2:
            return False
        features, out = self.shape(weight)
        if bias is not None and self.shape(bias) != (out,):
            return False
        source = self.steps.value(source)
        return self.add(
            Conv(inputs=[source], output=place, weight=weight, bias=bias, turned=True, channels=(features, out))
        )


def _padding(padding: Any, kernel: tuple[int, int], dilation: tuple[int, int]) -> tuple[int, int, int, int]:
    if padding == "valid":
        return 0, 0, 0, 0
    if padding == "same":
        whole = [step * (size - 1) for size, step in zip(kernel, dilation, strict=True)]
        return whole[0] // 2, whole[1] // 2, whole[0] - whole[0] // 2, whole[1] - whole[1] // 2
    top, left = pair(padding)
    return top, left, top, left
