"""Lower a graph: casts and scales written into it as operators of aten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

from jumar.base.findings import Json
from jumar.tune.graph import Graph, Node, Reference, references
from jumar.tune.graph.graph import GETITEM, post_order
from jumar.tune.model.errors import TuneError
from jumar.tune.model.task import TensorSpec
from jumar.tune.plan.lowering.lowering import DTYPES, Lowering, LowPrecision, Range, may_be
from jumar.tune.plan.lowering.movers import Groups, Shuffle, shuffle_of, sources_of
from jumar.tune.plan.lowering.weights import operands_of

Origin = TypeVar("Origin")


class Draft(Generic[Origin]):
    """Inputs (each with where it comes from) and nodes, by handles. What no output needs is left out."""

    def __init__(self) -> None:
        self._inputs: dict[int, tuple[TensorSpec, Origin, bool]] = {}
        self._nodes: dict[int, tuple[Node, TensorSpec | None]] = {}

    def input(self, spec: TensorSpec, origin: Origin, *, keep: bool = False) -> int:
        """Add an input and return its handle; `keep`: it stays even where nothing reads it."""
        handle = self._next()
        self._inputs[handle] = (spec, origin, keep)
        return handle

    def node(self, node: Node, spec: TensorSpec | None) -> int:
        """Add a node, whose references are handles, and return its handle."""
        handle = self._next()
        self._nodes[handle] = (node, spec)
        return handle

    def finish(self, outputs: Sequence[int | None], effects: Sequence[int]) -> tuple[Graph, list[Origin]]:
        """Return the graph, its nodes in canonical order, and the origins of its inputs."""
        # What is written is computed first: the first of two writes must not change what the second one reads.
        sources = [handle for effect in effects for handle in self._read_by(effect)[1:]]
        order = post_order(_present([*outputs, *sources, *effects]), self._inputs, self._read_by)
        read = {handle for place in order for handle in self._nodes[place][0].references()} | set(_present(outputs))
        taken = [handle for handle, (_, _, keep) in self._inputs.items() if keep or handle in read]
        numbers: dict[int, Reference] = {handle: number for number, handle in enumerate([*taken, *order])}
        graph = Graph(
            inputs=[self._inputs[handle][0] for handle in taken],
            nodes=[self._nodes[handle][0].renumbered(numbers.__getitem__) for handle in order],
            outputs=[None if handle is None else numbers[handle] for handle in outputs],
            effects=[numbers[handle] for handle in effects],
            values=[self._nodes[handle][1] for handle in order],
        )
        return graph, [self._inputs[handle][1] for handle in taken]

    def _read_by(self, handle: int) -> list[int]:
        return list(dict.fromkeys(self._nodes[handle][0].references()))

    def _next(self) -> int:
        return len(self._inputs) + len(self._nodes)


def _present(handles: Sequence[int | None]) -> list[int]:
    return [handle for handle in handles if handle is not None]


VALUE_STEPS = (0, 255)
WEIGHT_STEPS = (-127, 127)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What an input of the lowered graph is made of: an input of the graph that was lowered."""

    place: Reference
    how: Literal["same", "cast", "scales", "zeros"] = "same"
    """`scales` and `zeros`: of a weight's steps, one for each index of `axis`."""
    dtype: str = ""
    axis: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A lowered graph, and where its inputs come from. Variable inputs are the same, in the same order."""

    graph: Graph
    sources: tuple[Source, ...]


def lowered(graph: Graph, lowering: Lowering) -> Lowered:
    """Return `graph` with its nodes in the precisions that `lowering` names.

    A node that may not be lowered so (see `kinds`) stays as it is, so that a list can be made for one model and
    used on the next. Raises TuneError for a node that the graph has not, for int8 without a range, and for a
    training step, whose gradients casts would change.
    """
    if graph.gradients:
        raise TuneError(
            f"the graph is a training step of {len(graph.gradients)} gradients, and only inference is computed in "
            "fewer bits; tune it without --precision."
        )
    first, end = len(graph.inputs), len(graph.inputs) + len(graph.nodes)
    if strange := [node for node in lowering.nodes if not first <= node < end]:
        raise TuneError(f"the lowering names node {strange[0]}, and the graph has {first} to {end - 1}; tune again.")
    return _Rewriter(graph, lowering).rewrite()


def effective(graph: Graph, lowering: Lowering) -> dict[Reference, LowPrecision]:
    """Return which of the lowering's nodes are really lowered."""
    return {
        value: precision
        for value, precision in sorted(lowering.nodes.items())
        if (operands_of(graph, value) is not None if precision == "int8" else may_be(graph, value, precision))
    }


def rounded(graph: Graph, lowering: Lowering) -> list[Reference]:
    """Return the values that are rounded for the lowering's operators in int8, ascending: they need ranges."""
    groups = Groups(graph) if lowering.early else None
    return sorted({value for read in _read_in_int8(graph, lowering) for value in sources_of(groups, read)})


def _read_in_int8(graph: Graph, lowering: Lowering) -> list[Reference]:
    chosen = [value for value, precision in effective(graph, lowering).items() if precision == "int8"]
    return [operands.read for value in chosen if (operands := operands_of(graph, value)) is not None]


class _Rewriter:
    """Values have two numbers here: those of the graph that is read, and handles of the draft that is written."""

    def __init__(self, graph: Graph, lowering: Lowering) -> None:
        self._graph = graph
        self._ranges: Mapping[Reference, Range] = lowering.ranges
        self._precisions = effective(graph, lowering)
        self._draft: Draft[Source] = Draft()
        self._handles: dict[tuple[Reference, str], int] = {}
        self._own: dict[Reference, str] = {}
        """The type in which each value is made."""
        self._groups = Groups(graph) if lowering.early else None
        self._sources = {sources_of(self._groups, read) for read in _read_in_int8(graph, lowering)}
        """Of the groups that are rounded."""

    def rewrite(self) -> Lowered:
        graph = self._graph
        for place, spec in enumerate(graph.inputs):
            handle = self._draft.input(spec, Source(place=place), keep=not spec.constant)
            self._learn(place, spec.dtype, handle)
        for number, node in enumerate(graph.nodes):
            self._write(number + len(graph.inputs), node)
        outputs = [None if value is None else self._as_it_was(value) for value in graph.outputs]
        effects = [self._handles[value, self._own[value]] for value in graph.effects]
        made, sources = self._draft.finish(outputs, effects)
        return Lowered(graph=made, sources=tuple(sources))

    def _write(self, value: Reference, node: Node) -> None:
        precision = self._precisions.get(value)
        if self._is_moved_rounded(value):
            self._move_rounded(value, node)
        elif node.operator == GETITEM:
            self._take_item(value, node)
        elif precision == "int8":
            self._write_int8(value, node)
        elif precision is not None:
            self._add(value, node, DTYPES[precision])
        else:
            self._add(value, node, None)

    def _add(self, value: Reference, node: Node, dtype: str | None) -> None:
        """Write a node whose float32 operands, and result, are of type `dtype` (None: as they were)."""
        moved = node.renumbered(lambda read: self._as_it_was(read) if dtype is None else self._cast(read, dtype))
        spec = self._graph.spec_of(value)
        if dtype is not None and spec is not None:
            spec = replace(spec, dtype=dtype)
        self._learn(value, dtype or _dtype(self._graph, value), self._draft.node(moved, spec))

    def _take_item(self, value: Reference, node: Node) -> None:
        """An item has the type of the operator that makes it: float32 ones are lowered with it."""
        whole = next(node.references())
        was, own = _dtype(self._graph, value), self._own[whole]
        dtype = own if was == "float32" and own else was
        spec = self._graph.spec_of(value)
        moved = node.renumbered(lambda read: self._handles[read, self._own[read]])
        self._learn(value, dtype, self._draft.node(moved, None if spec is None else replace(spec, dtype=dtype)))

    def _is_moved_rounded(self, value: Reference) -> bool:
        groups = self._groups
        return groups is not None and groups.is_moved(value) and groups.sources(value) in self._sources

    def _move_rounded(self, value: Reference, node: Node) -> None:
        """Write a mover of rounded values, which gives rounded ones."""
        assert self._groups is not None
        shuffle = shuffle_of(self._graph, value)
        if shuffle is not None:
            written = self._turn(shuffle)
        else:
            moved = set(self._groups.moved_by(node))
            written = node.renumbered(lambda read: self._scaled(read) if read in moved else self._as_it_was(read))
        handle = self._draft.node(written, self._graph.spec_of(value))
        self._learn(value, _dtype(self._graph, value), handle)
        self._handles[value, "int8"] = handle

    def _turn(self, shuffle: Shuffle) -> Node:
        """Write the shuffle's first two operators, and return the last one."""
        read = self._scaled(shuffle.source)
        for operator, arguments, shape, stride in shuffle.steps():
            node = Node(operator=operator, arguments=[{"value": read}, *arguments])
            read = self._draft.node(node, TensorSpec(shape=shape, dtype="float32", stride=stride))
        return Node(operator="aten::reshape", arguments=[{"value": read}, [*shuffle.shape]])

    def _write_int8(self, value: Reference, node: Node) -> None:
        operands = operands_of(self._graph, value)
        assert operands is not None
        moved = node.renumbered(self._as_it_was)
        arguments = list(moved.arguments)
        arguments[operands.activation] = {"value": self._scaled(operands.read)}
        weight = self._scaled_weight(operands.constant, operands.axis)
        turned = next(references(node.arguments[operands.weight]))
        if turned != operands.constant:
            turning = self._graph.producer(turned)
            assert turning is not None
            weight = self._draft.node(turning.renumbered(lambda _: weight), self._graph.spec_of(turned))
        arguments[operands.weight] = {"value": weight}
        self._learn(value, "float32", self._draft.node(replace(moved, arguments=arguments), self._graph.spec_of(value)))

    def _scaled(self, value: Reference) -> int:
        """Return the handle of a value rounded to the steps of its range."""
        known = self._handles.get((value, "int8"))
        if known is not None:
            return known
        scale, zero = steps_of(self._range(value))
        arguments: list[Json] = [{"value": self._as_it_was(value)}, scale, zero, *VALUE_STEPS]
        node = Node(operator="aten::fake_quantize_per_tensor_affine", arguments=arguments)
        handle = self._handles[value, "int8"] = self._draft.node(node, self._graph.spec_of(value))
        return handle

    def _range(self, value: Reference) -> Range:
        """Return the range that `value` shares with all that movers connect it to."""
        sources = sources_of(self._groups, value)
        if strange := [source for source in sources if source not in self._ranges]:
            raise TuneError(
                f"an operator in int8 reads value {strange[0]}, whose range is not known; observe the graph."
            )
        lows, highs = zip(*(self._ranges[source] for source in sources), strict=True)
        return min(lows), max(highs)

    def _scaled_weight(self, place: Reference, axis: int) -> int:
        key = (place, f"int8 by {axis}")
        if key not in self._handles:
            num = self._graph.inputs[place].shape[axis]
            scales, zeros = (
                self._draft.input(
                    TensorSpec(shape=(num,), dtype=dtype, stride=(1,), constant=True),
                    Source(place=place, how=how, dtype=dtype, axis=axis),
                )
                for how, dtype in _PER_CHANNEL
            )
            values: list[Json] = [{"value": self._as_it_was(place)}, {"value": scales}, {"value": zeros}]
            node = Node(operator="aten::fake_quantize_per_channel_affine", arguments=[*values, axis, *WEIGHT_STEPS])
            self._handles[key] = self._draft.node(node, replace(self._graph.inputs[place], constant=False))
        return self._handles[key]

    def _as_it_was(self, value: Reference) -> int:
        return self._cast(value, _dtype(self._graph, value), back=True)

    def _cast(self, value: Reference, dtype: str, *, back: bool = False) -> int:
        """Return the handle of a value in a type: as made, or through one cast that all its readers share."""
        own = self._own[value]
        if not back and _dtype(self._graph, value) != "float32":
            dtype = own
        if (value, dtype) not in self._handles:
            spec = self._graph.spec_of(value)
            assert spec is not None
            cast = replace(spec, dtype=dtype)
            if spec.constant:
                handle = self._draft.input(cast, Source(place=value, how="cast", dtype=dtype))
            else:
                operand: Json = {"value": self._handles[value, own]}
                node = Node(operator="aten::_to_copy", arguments=[operand], keywords={"dtype": {"dtype": dtype}})
                handle = self._draft.node(node, cast)
            self._handles[value, dtype] = handle
        return self._handles[value, dtype]

    def _learn(self, value: Reference, dtype: str, handle: int) -> None:
        self._own[value] = dtype
        self._handles[value, dtype] = handle


_PER_CHANNEL: tuple[tuple[Literal["scales", "zeros"], str], ...] = (("scales", "float32"), ("zeros", "int32"))


_LEAST_SCALE = 2.0**-126


def steps_of(observed: Range) -> tuple[float, int]:
    """Return (scale, zero) of 256 steps over a range widened to hold 0, which is then a step: padding stays exact."""
    low, high = min(observed[0], 0.0), max(observed[1], 0.0)
    first, last = VALUE_STEPS
    scale = (high - low) / (last - first)
    if scale < _LEAST_SCALE:  # its inverse, which kernels multiply by, would be infinite
        return 1.0, first
    return scale, min(max(round(first - low / scale), first), last)


def _dtype(graph: Graph, value: Reference) -> str:
    """Return the type of a value in the graph that is lowered; empty for several tensors."""
    spec = graph.spec_of(value)
    return "" if spec is None else spec.dtype
