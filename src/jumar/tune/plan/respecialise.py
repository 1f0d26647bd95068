"""The same model at another size or in another layout: the graph traced again with fake tensors.

Shapes that a graph writes down as arguments (`view(x, [8, 64])`) hold the size of the batch it was captured with.
They are found by where the batch lies in row-major order: a view keeps that order, so the batch of its output is the
dimension that covers the same place. A size that is made from nothing (`zeros([8, 64])`, a token that is expanded
over the batch) is changed when it begins with the batch.

`Resize` changes one number in a size that a graph writes down.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from jumar.base.findings import Json
from jumar.operators import base_name
from jumar.tune.engines.base import GraphFunction, Site
from jumar.tune.engines.shared.cut import is_fill
from jumar.tune.graph import Graph, Node
from jumar.tune.graph.fx import fake_tensors, spec_of, to_fx
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import TensorSpec

_SIZES = frozenset({"size", "shape", "repeats"})
"""Names of arguments, in aten's schemas, that hold the shape of the output."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The batch of `old` rows becomes one of `new` rows."""

    old: int
    new: int

    def of(self, size: int) -> int:
        """Return a multiple of the old batch as the same multiple of the new one. Raises TuneError for another size."""
        scaled, rest = divmod(size * self.new, self.old)
        if rest:
            raise TuneError(f"{size} is no multiple of the batch of {self.old}, which therefore cannot be cut")
        return scaled


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """A call with `size` in the place `where` of its argument `argument` (place and name); None: as it stands."""

    target: Any
    argument: tuple[int, str] | None = None
    where: int | None = None
    size: int = 0
    operator: str = ""
    """Another operator's name; empty: the node's own."""

    def filled(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the positional arguments of the call."""
        place = None if self.argument is None else self.argument[0]
        return [self._sized(value) if number == place else value for number, value in enumerate(arguments)]

    def filled_words(self, words: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of the call."""
        name = None if self.argument is None else self.argument[1]
        return {word: self._sized(value) if word == name else value for word, value in words.items()}

    def node(self, node: Node) -> Node:
        """Return the node of the call."""
        arguments: list[Json] = self.filled(node.arguments)
        return Node(
            operator=self.operator or node.operator, arguments=arguments, keywords=self.filled_words(node.keywords)
        )

    def _sized(self, sizes: Sequence[Any]) -> list[Any]:
        return [self.size if place == self.where else size for place, size in enumerate(sizes)]


def size_argument(target: Any) -> tuple[int, str] | None:
    """Return place and name of the argument of an operator that holds the output's shape; None without one."""
    for place, argument in enumerate(getattr(getattr(target, "_schema", None), "arguments", ())):
        if argument.name in _SIZES and "List[int]" in str(argument.type):
            return place, argument.name
    return None


Sizes = tuple[int, ...]


def batch_of(graph: Graph) -> int:
    """Return the first dimension of the first variable input that has one; 0 when none has."""
    shapes = (graph.inputs[place].shape for place in graph.variables)
    return next((shape[0] for shape in shapes if shape), 0)


def splits(batch: int, *, is_uneven: bool) -> list[Sizes]:
    """Return the splits of a batch, fewest pieces first: halves, thirds, … down to single rows.

    Even ones are those whose pieces are equal. With `is_uneven`, what is left over makes the last pieces one row
    smaller, so that a batch of 7 has 4+3, 3+2+2, 2+2+2+1, then single rows; numbers of pieces double from step to
    step, so that there are few.
    """
    found: list[Sizes] = []
    for pieces in _counts(batch):
        size, rest = divmod(batch, pieces)
        if not rest or is_uneven:
            found.append((size + 1,) * rest + (size,) * (pieces - rest))
    return found


def _counts(batch: int) -> list[int]:
    """Return 2, 3, 4, then the doubles, and one piece a row."""
    counts = {2, 3, *(2**power for power in range(2, batch.bit_length())), batch}
    return sorted(count for count in counts if 2 <= count <= batch)


_VIEWS = frozenset({"view", "reshape", "_unsafe_view", "view_copy"})


def respecialise(graph: Graph, inputs: Mapping[int, TensorSpec], scale: Scale | None = None) -> Graph:
    """Return `graph` for inputs of other shapes (by `scale`) or strides; `inputs` holds the ones that change.

    Raises TuneError when an operator refuses them, or the batch does not run through as one dimension: a value that
    is computed from all rows and has none may differ from piece to piece.
    """
    specs = [inputs.get(place, spec) for place, spec in enumerate(graph.inputs)]
    carried = {place: _batch_dimension(graph.inputs[place], spec, scale) for place, spec in inputs.items()}
    tracer = _Tracer(graph, scale, {place: dim for place, dim in carried.items() if dim is not None})
    with fake_tensors():
        tracer.run(*(torch.empty_strided(one.shape, one.stride, dtype=getattr(torch, one.dtype)) for one in specs))
    return replace(graph, inputs=specs, nodes=tracer.nodes, values=tracer.specs)


class _Tracer(fx.Interpreter):
    """Runs a graph on fake tensors and writes down its nodes with the sizes they now have."""

    def __init__(self, graph: Graph, scale: Scale | None, carried: dict[int, int]) -> None:
        super().__init__(to_fx(graph))
        self.extra_traceback = False
        self._old = graph
        self._scale = scale
        self._carried = carried
        """Where the batch is: dimension by value."""
        self._several: set[int] = set()
        """Values that are several tensors, of which some may carry the batch."""
        self._next = len(graph.inputs)
        self.nodes: list[Node] = []
        self.specs: list[TensorSpec | None] = []

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compute one node in the first way that works. Raises TuneError when none does."""
        node = self._old.nodes[self._next - len(self._old.inputs)]
        reason = ""
        for way in self._ways(node, target):
            try:
                result = way.target(*way.filled(args), **way.filled_words(kwargs))
                dimension = self._batch_of(result)
            except (RuntimeError, IndexError, ValueError, TypeError, TuneError) as error:
                reason = reason or str(error).strip().partition("\n")[0].rstrip(".")
                continue
            self._refuse_lost_batch(node, result, dimension)
            self._take(way.node(node), result, dimension)
            return result
        what = "another layout" if self._scale is None else f"a batch of {self._scale.new}"
        raise TuneError(f"{node.operator} does not take {what} in place of what was captured: {reason}.")

    def _refuse_lost_batch(self, node: Node, result: Any, dimension: int | None) -> None:
        """Raise TuneError for a tensor that is computed from the batch and does not carry it."""
        if dimension is not None or not any(value in self._carried or value in self._several for value in _read(node)):
            return
        if not isinstance(result, torch.Tensor):  # its items are asked one by one
            self._several.add(self._next)
            return
        raise TuneError(
            f"{node.operator} reads all rows, and what it computes does not carry the batch: rows depend on each "
            "other; leave the batch whole."
        )

    def _take(self, node: Node, result: Any, dimension: int | None) -> None:
        self.nodes.append(node)
        self.specs.append(spec_of(result))
        if dimension is not None:
            self._carried[self._next] = dimension
        self._next += 1

    def _ways(self, node: Node, target: Any) -> Iterator[Resize]:
        """Yield what to try: the size that follows from the batch, the one that stands there, a copy for a view."""
        base = base_name(node.operator)
        place = size_argument(target)
        size = None if place is None else self._new_size(node, base, place)
        if size is not None:
            yield Resize(target=target, argument=place, where=size[0], size=size[1])
        yield Resize(target=target)
        if base in {"view", "_unsafe_view"}:
            copy = torch.ops.aten.reshape.default
            where, new = size or (None, 0)
            yield Resize(target=copy, argument=place, where=where, size=new, operator="aten::reshape")

    def _new_size(self, node: Node, base: str, place: tuple[int, str]) -> tuple[int, int] | None:
        """Return which number of the written size changes, and to what; None when none does."""
        written = node.arguments[place[0]] if place[0] < len(node.arguments) else node.keywords.get(place[1])
        if self._scale is None or not isinstance(written, list):
            return None
        sizes = [size if isinstance(size, int) else -1 for size in written]
        source = next((value for value in node.references() if value in self._carried), None)
        where = self._place_of_batch(sizes, base, source)
        if where is None or not 0 <= where < len(sizes) or sizes[where] % self._scale.old or sizes[where] < 1:
            return None
        return where, self._scale.of(sizes[where])

    def _place_of_batch(self, sizes: list[int], base: str, source: int | None) -> int | None:
        assert self._scale is not None
        if source is None:
            return 0 if sizes and sizes[0] == self._scale.old else None
        taken, made = self._old.spec_of(source), self._old.spec_of(self._next)
        if taken is None or made is None or base in {"repeat", "unflatten"}:
            return None
        if base in _VIEWS:
            return _same_place(taken.shape, self._carried[source], made.shape, self._scale.old)
        return self._carried[source] + len(sizes) - len(taken.shape)

    def _batch_of(self, result: Any) -> int | None:
        """Return the dimension that carries the batch. Items of several tensors are asked one by one."""
        old, new = self._old.spec_of(self._next), spec_of(result)
        return None if old is None or new is None else _batch_dimension(old, new, self._scale)


def _read(node: Node) -> list[int]:
    """Return the values whose elements a node reads, not only their look."""
    base = base_name(node.operator)
    values = list(node.references())
    reads_look = base == "to" or base.endswith("_as")  # of the second tensor: its shape, its dtype
    return [] if is_fill(base) else values[:1] if reads_look else values


def _same_place(taken: tuple[int, ...], dimension: int, made: tuple[int, ...], batch: int) -> int | None:
    """Return the dimension of a view that covers the batch of what is viewed, in row-major order."""
    before = math.prod(taken[:dimension])
    outer = 1
    for place, size in enumerate(made):
        if size % batch == 0 and before % outer == 0 and outer * size > before:
            return place
        outer *= size
    return None


def _batch_dimension(old: TensorSpec, new: TensorSpec, scale: Scale | None) -> int | None:
    """Return the dimension that carries the batch, None where nothing does. Raises TuneError for any other change."""
    if len(old.shape) != len(new.shape) or old.dtype != new.dtype:
        raise TuneError(f"{old} becomes {new}")
    pairs = enumerate(zip(old.shape, new.shape, strict=True))
    changed = [place for place, (before, after) in pairs if before != after]
    if not changed:
        return None
    if scale is None or len(changed) > 1 or scale.of(old.shape[changed[0]]) != new.shape[changed[0]]:
        raise TuneError(f"{old} becomes {new}, in which the batch is not one dimension")
    return changed[0]


CHANNELS_LAST = "channels_last"
_IMAGE = 4
"""Dimensions of a tensor that has channels: batch, channels, height, width."""


def in_layout(site: Site, make: Callable[[Site], GraphFunction]) -> GraphFunction:
    """Return `site.graph`'s function, computed by what `make` builds of the same graph in channels-last.

    Variable inputs are converted in each call, outputs are given back with the strides that the graph says.
    Raises TuneError when an operator refuses the layout.
    """
    graph = site.graph
    changed = {place: _turned(spec) for place, spec in enumerate(graph.inputs) if len(spec.shape) == _IMAGE}
    turned = respecialise(graph, changed)
    constants = {place: _converted(weight) for place, weight in site.constants.items()}
    example = [_converted(tensor) for tensor in site.example]
    function = make(replace(site, graph=turned, constants=constants, example=example))
    strides = [
        None if value is None or (spec := graph.spec_of(value)) is None else spec.stride for value in graph.outputs
    ]

    def call(*tensors: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        made = function(*[_converted(tensor) for tensor in tensors])
        return tuple(
            output if output is None or stride is None else _with_stride(output, stride)
            for output, stride in zip(made, strides, strict=True)
        )

    return call


def _converted(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == _IMAGE else tensor


def _turned(spec: TensorSpec) -> TensorSpec:
    _, channels, height, width = spec.shape
    return replace(spec, stride=(channels * height * width, 1, channels * width, channels))


def _with_stride(output: torch.Tensor, stride: tuple[int, ...]) -> torch.Tensor:
    if output.stride() == stride:
        return output
    made = torch.empty_strided(output.shape, stride, dtype=output.dtype, device=output.device)
    return made.copy_(output)
