"""A graph of aten operators as steps: what follows a convolution becomes part of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from jumar.tune.engines.kernels.recognise.layers import Layers, named, pair, value_of
from jumar.tune.engines.kernels.recognise.steps import (
    Affine,
    Aten,
    Binary,
    Channels,
    Conv,
    Gelu,
    Mean,
    Norm,
    Pool,
    Post,
    Steps,
)  # fmt: skip
from jumar.tune.engines.shared.cut import root_of
from jumar.tune.graph import Graph, Node, Reference
from jumar.tune.model.task import contiguous_stride

Arguments = dict[str, Any]
_POSTS: tuple[Post, ...] = ("silu", "sigmoid", "hardswish", "hardsigmoid")
MAX_RANK = 4
"""Of ordinary tensors: the library is given so many strides of each."""
_BINARY = {"aten::add.Tensor": "add", "aten::mul.Tensor": "mul", "aten::sub.Tensor": "sub"}


Read = Callable[["_Reader", Reference, Node, Arguments], bool]
_READERS: dict[str, Read] = {}


def _reads(*operators: str) -> Callable[[Read], Read]:
    """Let a method read the calls of these operators."""

    def register(read: Read) -> Read:
        _READERS.update(dict.fromkeys(operators, read))
        return read

    return register


def recognise(graph: Graph) -> Steps:
    """Return the steps of a graph. What the kernels have no step for is an `Aten` step."""
    reader = _Reader(graph)
    for place, node in enumerate(graph.nodes, start=len(graph.inputs)):
        reader.read(place, node)
    return reader.steps


class _Reader(Layers):
    def read(self, place: Reference, node: Node) -> None:
        """Add a node's step."""
        if place in self.done:
            return
        arguments = named(node)
        reader = _READERS.get(node.operator)
        if arguments is None or reader is None or not reader(self, place, node, arguments):
            self.add(Aten(inputs=[self.steps.value(value) for value in node.references()], output=place))

    @_reads("aten::gelu")
    def gelu(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read a GELU by tanh; PyTorch's own GELU by erf is as fast."""
        source = value_of(given["input"])
        if source is None or given["approximate"] != "tanh" or source in self.steps.aliases:
            return False
        return self._is_ordinary(source) and self._is_ordinary(place) and self.add(Gelu(inputs=[source], output=place))

    def _is_ordinary(self, value: Reference) -> bool:
        spec = self.graph.spec_of(value)
        if spec is None or not 0 < len(self.shape(value)) <= MAX_RANK or self.is_constant(value):
            return False
        return spec.stride == contiguous_stride(spec.shape)

    @_reads("aten::batch_norm", "aten::_native_batch_norm_legit_no_training")
    def norm(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read a batch normalization with fixed statistics, into the convolution before it where there is one."""
        places = [value_of(given[name]) for name in ("weight", "bias", "running_mean", "running_var")]
        source = value_of(given["input"])
        if source is None or given.get("training") or None in places[2:] or not all(map(self.is_constant, places)):
            return False
        if not self.images(source) or not (self.shape(place) or self._only_first(place)):
            return False
        weight, bias, mean, variance = places
        assert mean is not None
        assert variance is not None
        norm = Norm(weight, bias, mean, variance, float(given["eps"]))
        step = self.alone(source)
        if isinstance(step, Conv) and not step.activated and step.norm is None and step.other is None:
            step.norm = norm
            return self.moved(step, place)
        return self.add(Affine(inputs=[self.steps.value(source)], output=place, norm=norm))

    def _only_first(self, place: Reference) -> bool:
        readers = [node for node in self.graph.nodes if place in node.references()]
        return len(readers) == 1 and readers[0].operator == "getitem" and readers[0].arguments[1] == 0

    @_reads(
        "aten::relu",
        "aten::relu6",
        "aten::hardtanh",
        "aten::clamp",
        "aten::clamp_min",
        *(f"aten::{post}" for post in _POSTS),
    )
    def activation(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read an activation, into the step before it where there is one."""
        source = value_of(given["input"])
        limits = _limits(node.operator, given)
        if source is None or limits is None or not self.images(source, place):
            return False
        step = self.alone(source)
        if not isinstance(step, (Conv, Affine, Binary)) or step.activated:
            step = Affine(inputs=[self.steps.value(source)], output=place)
            self.add(step)
        else:
            self.moved(step, place)
        step.low, step.high = limits
        step.post = next((post for post in _POSTS if node.operator == f"aten::{post}"), "none")
        return True

    @_reads("aten::add.Tensor", "aten::mul.Tensor", "aten::sub.Tensor")
    def binary(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read a sum, difference or product; a sum becomes part of the convolution that makes its later operand."""
        operands = [value_of(given["input"]), value_of(given["other"])]
        if None in operands or given.get("alpha", 1) != 1 or self.shape(place) == ():
            return False
        left, right = (self.steps.value(value) for value in operands if value is not None)
        shapes = [self.shape(value) for value in operands if value is not None]
        if (
            not self.images(*(value for value in operands if value is not None))
            or len({len(shape) for shape in shapes}) != 1
        ):
            return False
        kind = _BINARY[node.operator]
        if shapes[0] != shapes[1]:
            if kind == "sub" or not any(_is_pixel_of(*two) for two in (shapes, shapes[::-1])):
                return False
            if _is_pixel_of(shapes[0], shapes[1]):
                left, right = right, left
        elif kind == "add" and self._fuse_sum(place, [value for value in operands if value is not None]):
            return True
        return self.add(Binary(inputs=[left, right], output=place, kind=kind))  # type: ignore[arg-type]

    def _fuse_sum(self, place: Reference, operands: list[Reference]) -> bool:
        made = [self.made.get(self.steps.value(value), -1) for value in operands]
        later = 0 if made[0] > made[1] else 1
        step = self.alone(operands[later])
        fits = isinstance(step, Conv) and not step.activated and step.other is None and not step.is_depthwise
        if not fits or operands[0] == operands[1]:
            return False
        assert isinstance(step, Conv)
        step.other = self.steps.value(operands[1 - later])
        step.inputs.append(step.other)
        return self.moved(step, place)

    @_reads("aten::max_pool2d", "aten::avg_pool2d")
    def pool(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read a maximum or average over windows."""
        source = value_of(given["input"])
        if source is None or len(self.shape(source)) != 4 or not self.shape(place):
            return False
        kernel, maximum = pair(given["kernel_size"]), node.operator == "aten::max_pool2d"
        stride = pair(given["stride"]) if given["stride"] else kernel
        divisor = int(given.get("divisor_override") or 0)
        return self.add(
            Pool(
                inputs=[self.steps.value(source)], output=place, kernel=kernel, stride=stride,
                padding=pair(given["padding"]), dilation=pair(given.get("dilation", 1)), maximum=maximum,
                count_padding=bool(given.get("count_include_pad", True)), divisor=divisor,
            )
        )  # fmt: skip

    @_reads("aten::adaptive_avg_pool2d", "aten::mean.dim")
    def mean(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read a mean over all pixels."""
        source = value_of(given["input"])
        if source is None or len(self.shape(source)) != 4 or not self.shape(place) or given.get("dtype") is not None:
            return False
        if "dim" in given and sorted(axis % 4 for axis in given["dim"] or ()) != [2, 3]:
            return False
        if "output_size" in given and pair(given["output_size"]) != (1, 1):
            return False
        return self.add(Mean(inputs=[self.steps.value(source)], output=place))

    @_reads("aten::view", "aten::reshape", "aten::flatten.using_ints", "aten::squeeze.dims")
    def reshape(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read a change of shape that moves nothing, and the three operators of a channel shuffle."""
        source = value_of(given["input"])
        if source is None or not self.images(source):
            return False
        old, new = self.shape(source), self.shape(place)
        if old == new or (len(new) in {2, 4} and old[0] == new[0] and _flattened(old, new)):
            if len(new) == 2 and math.prod(old[2:]) != 1:
                self.flat.add(place)
            return self.alias(place, source)
        return len(old) == 4 and len(new) == 5 and self._shuffle(place, source, old, new)

    def _shuffle(self, place: Reference, source: Reference, old: tuple[int, ...], new: tuple[int, ...]) -> bool:
        """Follow (N, g, C/g, H, W) -> transpose(1, 2) -> (N, C, H, W)."""
        if (new[0], *new[3:]) != (old[0], *old[2:]) or new[1] * new[2] != old[1]:
            return False
        chain = [place]
        for operators in (
            {"aten::transpose.int"},
            {"aten::contiguous", "aten::clone"},
            {"aten::view", "aten::reshape"},
        ):
            following = self._reader_of(chain[-1])
            if following is not None and self._node(following).operator in operators:
                chain.append(following)
            elif "aten::clone" not in operators:
                return False
        turned = named(self._node(chain[1]))
        if turned is None or sorted((turned["dim0"] % 5, turned["dim1"] % 5)) != [1, 2] or self.shape(chain[-1]) != old:
            return False
        self.done.update(chain)
        return self._shuffled(chain[-1], source, new[1], old[1])

    def _shuffled(self, place: Reference, source: Reference, groups: int, channels: int) -> bool:
        each = channels // groups
        picks = [(0, group * each + i) for i in range(each) for group in range(groups)]
        return self.add(Channels(inputs=[self.steps.value(source)], output=place, picks=picks))

    @_reads("aten::channel_shuffle", "aten::native_channel_shuffle")
    def shuffle(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read a channel shuffle that is one operator."""
        source = value_of(given["input"])
        if source is None or len(self.shape(source)) != 4 or not self.shape(place):
            return False
        return self._shuffled(place, source, int(given["groups"]), self.shape(source)[1])

    def _reader_of(self, value: Reference) -> Reference | None:
        if self.uses[value] != 1:
            return None
        first = len(self.graph.inputs)
        return next((first + i for i, node in enumerate(self.graph.nodes) if value in node.references()), None)

    def _node(self, value: Reference) -> Node:
        return self.graph.nodes[value - len(self.graph.inputs)]

    @_reads("aten::contiguous", "aten::dropout")
    def same(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read an operator that returns its input."""
        source = value_of(given["input"])
        if source is None or given.get("train") or self.shape(place) != self.shape(source) or not self.shape(place):
            return False
        if source in self.pads:
            return False
        if source in self.flat:
            self.flat.add(place)
        return len(self.shape(place)) in {2, 4} and self.alias(place, source)

    @_reads("aten::clone")
    def copy(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read a copy; PyTorch makes those without which an output would be an input or another output."""
        return not self._parts(place, value_of(given["input"])) and self.same(place, node, given)

    def _parts(self, place: Reference, source: Reference | None) -> bool:
        results = {root_of(self.graph, value) for value in self.graph.outputs if value is not None}
        if source is None or place not in results:
            return False
        held = self._memory(source)
        return held in results or held < len(self.graph.inputs)

    def _memory(self, value: Reference) -> Reference:
        """Return the value in whose memory a value is, behind views and what was read as another value."""
        while (found := root_of(self.graph, self.steps.value(value))) != value:
            value = found
        return value

    @_reads("aten::pad", "aten::constant_pad_nd")
    def pad(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read zeros around an image, when only convolutions read them."""
        source, sizes = value_of(given["input"]), given["pad"]
        zero = not given["value"] and given.get("mode", "constant") == "constant"
        if source is None or len(self.shape(source)) != 4 or not zero or len(sizes) not in {2, 4} or min(sizes) < 0:
            return False
        readers = [node for node in self.graph.nodes if place in node.references()]
        if place in self.graph.outputs or not all(self._takes_padding(node, place) for node in readers):
            return False
        left, right, top, bottom = (*sizes, 0, 0)[:4]
        self.pads[place] = self.steps.value(source), (top, left, bottom, right)
        return True

    def _takes_padding(self, node: Node, place: Reference) -> bool:
        given = named(node) if node.operator in {"aten::conv2d", "aten::convolution"} else None
        if given is None or given.get("transposed") or value_of(given["input"]) != place:
            return False
        return self.is_constant(value_of(given["weight"])) and self.is_constant(value_of(given["bias"]))

    @_reads("aten::cat")
    def cat(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read a concatenation of channels."""
        values = [value_of(item) for item in given["tensors"]]
        if None in values or given["dim"] % 4 != 1 or len(self.shape(place)) != 4:
            return False
        known = [value for value in values if value is not None]
        if any(len(self.shape(value)) != 4 for value in known):
            return False
        picks = [(number, channel) for number, value in enumerate(known) for channel in range(self.shape(value)[1])]
        return self.add(Channels(inputs=[self.steps.value(value) for value in known], output=place, picks=picks))

    @_reads("aten::split.Tensor", "aten::split_with_sizes", "aten::chunk")
    def split(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read a split of channels; its parts are read by `getitem`."""
        source = value_of(given["input"])
        if source is None or len(self.shape(source)) != 4 or given["dim"] % 4 != 1 or place in self.graph.outputs:
            return False
        count = self.shape(source)[1]
        if "split_sizes" in given:
            sizes = list(given["split_sizes"])
        else:
            size = int(given["split_size"]) if "split_size" in given else math.ceil(count / int(given["chunks"]))
            sizes = [min(size, count - start) for start in range(0, count, size)]
        starts = [sum(sizes[:number]) for number in range(len(sizes))]
        self.several[place] = [
            Channels(inputs=[self.steps.value(source)], output=-1, picks=[(0, start + i) for i in range(size)])
            for start, size in zip(starts, sizes, strict=True)
        ]
        return True

    @_reads("getitem")
    def item(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read one part of a split, or the result of a normalization."""
        source, index = value_of(given["input"]), given["index"]
        if source in self.several:
            step = self.several[source][index]
            step.output = place
            return self.add(step)
        made = self.made.get(self.steps.value(source)) if source is not None else None
        if made is None or index != 0 or isinstance(self.steps.steps[made], Aten) or not self.shape(place):
            return False
        return self.moved(self.steps.steps[made], place)

    @_reads("aten::slice.Tensor")
    def slice(self, place: Reference, node: Node, given: Arguments) -> bool:
        """Read a range of channels."""
        source = value_of(given["input"])
        if source is None or len(self.shape(source)) != 4 or given["dim"] % 4 != 1 or not self.shape(place):
            return False
        channels = range(self.shape(source)[1])[slice(given["start"], given["end"], given["step"])]
        picks = [(0, channel) for channel in channels]
        return self.add(Channels(inputs=[self.steps.value(source)], output=place, picks=picks))


def _limits(operator: str, given: Arguments) -> tuple[float, float] | None:
    if operator in _POSTS:
        return -math.inf, math.inf
    if operator == "aten::relu":
        return 0.0, math.inf
    if operator == "aten::relu6":
        return 0.0, 6.0
    low, high = given.get("min", given.get("min_val")), given.get("max", given.get("max_val"))
    bounds = [-math.inf if low is None else low, math.inf if high is None else high]
    if not all(isinstance(bound, (int, float)) for bound in bounds):
        return None
    return float(bounds[0]), float(bounds[1])


def _flattened(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """Tell whether only pixels of single ones come or go, or an image becomes a row."""
    if len(new) == 2:
        return math.prod(old[1:]) == new[1]
    return math.prod(old[2:]) == math.prod(new[2:]) == 1 and old[1] == new[1]


def _is_pixel_of(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    return len(small) == len(large) == 4 and small[:2] == large[:2] and small[2:] == (1, 1)


# Read by `Layers`.
_READERS.update(dict.fromkeys(("aten::conv2d", "aten::conv2d.padding", "aten::convolution"), _Reader.conv))
_READERS.update(dict.fromkeys(("aten::linear",), _Reader.linear))
_READERS.update(dict.fromkeys(("aten::mm", "aten::matmul", "aten::addmm"), _Reader.product))
