"""What of a graph an engine computes, and what PyTorch does around it.

Engines compute contiguous tensors from contiguous tensors. Everything else about a graph's borders stays with
PyTorch, where it costs no copy:

- outputs that are an input, a view of one, or views of each other share memory here as they do in PyTorch;
- dense tensors of other strides (channels-last) enter and leave as their contiguous permutation;
- effects (`aten::copy_` to an input) are carried out on what the engine returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from jumar.operators import has
from jumar.tune.graph import Graph, Node, Reference
from jumar.tune.graph.graph import GETITEM
from jumar.tune.model.task import TensorSpec, contiguous_stride

PERMUTE = "aten::permute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A graph cut into what an engine computes and the views around it."""

    inside: Graph
    """Inputs and outputs are contiguous; no output is an input, a view, or there twice; no effects."""
    sources: Sequence[Reference]
    """The input of the whole graph that each input of `inside` is."""
    orders: Sequence[tuple[int, ...] | None]
    """How each of those is permuted first; None: not at all."""
    roots: Sequence[Reference]
    """The value of the whole graph that each output of `inside` is."""
    strides: Sequence[tuple[int, ...] | None]
    """The strides that each output is given; None: contiguous."""
    tail: Sequence[Reference] = field(default=())
    """Nodes of the whole graph that PyTorch runs on the roots and inputs, ascending."""


def cut(graph: Graph) -> Cut:
    """Cut `graph`, whose `values` must be known (`jumar.tune.graph.fx.with_values`)."""
    tail: set[Reference] = set()
    roots: dict[Reference, None] = {}
    for value in wanted(graph):
        root = _root(graph, value, tail)
        if root >= len(graph.inputs):
            roots[root] = None
    inside, sources = extract(graph, roots)
    inside, orders = _permuted_inputs(inside)
    inside, strides = _permuted_outputs(inside)
    return Cut(
        inside=inside, sources=sources, orders=orders, roots=list(roots), strides=strides, tail=sorted(tail)
    )  # fmt: skip


def is_fill(operator: str) -> bool:
    """Tell whether an operator reads a tensor's shape and none of its values: `zeros_like`, `new_full`."""
    return has(operator, "fill") and has(operator, "like")


def wanted(graph: Graph) -> list[Reference]:
    """Return what must be computed: the outputs, and what effects write; an effect's own value is its input."""
    effects = set(graph.effects)
    outputs = [value for value in graph.outputs if value is not None and value not in effects]
    return [*outputs, *(effect_of(graph, value)[1] for value in graph.effects)]


def root_of(graph: Graph, value: Reference) -> Reference:
    """Return what a value is a view of, or may be; itself when it is none."""
    return _root(graph, value, set())


def effect_of(graph: Graph, value: Reference) -> tuple[Reference, Reference]:
    """Return the input that an effect writes to, and the value it writes."""
    node = graph.nodes[value - len(graph.inputs)]
    into, source = list(node.references())[:2]
    return into, source


def extract(graph: Graph, roots: Iterable[Reference]) -> tuple[Graph, list[Reference]]:
    """Return the graph that computes just `roots`, and the inputs of the whole that it takes."""
    first = len(graph.inputs)
    roots = list(roots)
    needed: set[Reference] = set()
    stack = list(roots)
    while stack:
        value = stack.pop()
        if value not in needed:
            needed.add(value)
            node = graph.producer(value)
            stack.extend(node.references() if node is not None else ())
    order = sorted(needed)
    numbers = {value: number for number, value in enumerate(order)}
    sources = [value for value in order if value < first]
    nodes = [value for value in order if value >= first]
    inside = Graph(
        inputs=[graph.inputs[value] for value in sources],
        nodes=[graph.nodes[value - first].renumbered(numbers.__getitem__) for value in nodes],
        outputs=[numbers[value] for value in roots],
        values=[graph.spec_of(value) for value in nodes],
    )
    return inside, sources


def _root(graph: Graph, value: Reference, tail: set[Reference]) -> Reference:
    """Follow views back to what they look at, adding them to `tail`."""
    while (step := _seen_by(graph, value)) is not None:
        tail.add(value)
        value = step
    return value


def _seen_by(graph: Graph, value: Reference) -> Reference | None:
    """Return what `value` is a view of; None when it is none."""
    node = graph.producer(value)
    if node is None:
        return None
    read = list(node.references())
    if node.operator == GETITEM:  # of a view's several outputs, such as a split's
        return read[0] if _seen_by(graph, read[0]) is not None else None
    is_view = node.operator.startswith("aten::") and has(node.operator, "aliases")
    return read[0] if is_view and len(read) == 1 else None


def _permuted_inputs(graph: Graph) -> tuple[Graph, list[tuple[int, ...] | None]]:
    """Take dense inputs in the order of their memory and give them their shape inside; constants stay."""
    orders = [None if spec.constant else contiguous_order(spec.shape, spec.stride) for spec in graph.inputs]
    turned = [place for place, order in enumerate(orders) if order is not None]
    if not turned:
        return _contiguous_inputs(graph), orders
    first, shift = len(graph.inputs), len(turned)
    numbers = {place: first + number for number, place in enumerate(turned)}

    def number(value: Reference) -> Reference:
        return numbers.get(value, value) if value < first else value + shift

    views = [_permute(place, _inverse(order)) for place in turned if (order := orders[place]) is not None]
    inside = replace(
        graph,
        inputs=[_reordered(spec, order) for spec, order in zip(graph.inputs, orders, strict=True)],
        nodes=[*views, *(node.renumbered(number) for node in graph.nodes)],
        outputs=[None if value is None else number(value) for value in graph.outputs],
        values=[*(graph.inputs[place] for place in turned), *graph.values],
    )
    return _contiguous_inputs(inside), orders


def _permuted_outputs(graph: Graph) -> tuple[Graph, list[tuple[int, ...] | None]]:
    """Return dense outputs in the order of their memory, so that the engine writes them where they belong."""
    nodes, values = list(graph.nodes), list(graph.values)
    outputs: list[Reference | None] = []
    strides: list[tuple[int, ...] | None] = []
    for value in graph.outputs:
        assert value is not None
        spec = graph.spec_of(value)
        assert spec is not None
        order = contiguous_order(spec.shape, spec.stride)
        strides.append(None if spec.stride == contiguous_stride(spec.shape) else spec.stride)
        if order is not None:
            nodes.append(_permute(value, order))
            values.append(_reordered(spec, order))
            value = len(graph.inputs) + len(nodes) - 1  # noqa: PLW2901 - the same output, permuted
        outputs.append(value)
    return replace(graph, nodes=nodes, values=values, outputs=outputs), strides


def _contiguous_inputs(graph: Graph) -> Graph:
    specs = [
        spec if spec.constant else replace(spec, stride=contiguous_stride(spec.shape)) for spec in graph.inputs
    ]  # fmt: skip
    return replace(graph, inputs=specs)


def _reordered(spec: TensorSpec, order: tuple[int, ...] | None) -> TensorSpec:
    if order is None:
        return spec
    shape = tuple(spec.shape[place] for place in order)
    return replace(spec, shape=shape, stride=contiguous_stride(shape))


def _permute(value: Reference, order: Sequence[int]) -> Node:
    return Node(operator=PERMUTE, arguments=[{"value": value}, list(order)])


def _inverse(order: Sequence[int]) -> tuple[int, ...]:
    return tuple(order.index(place) for place in range(len(order)))


def contiguous_order(shape: Sequence[int], stride: Sequence[int]) -> tuple[int, ...] | None:
    """Return the order of dimensions in which a dense tensor is contiguous.

    None when it is contiguous as it stands, and when no order makes it so (gaps, expanded or overlapping elements):
    such a tensor must be copied. Dimensions of length 1 do not matter.
    """
    if is_contiguous(shape, stride):
        return None
    long = sorted((place for place, length in enumerate(shape) if length > 1), key=lambda place: -stride[place])
    short = [place for place, length in enumerate(shape) if length == 1]
    order = (*short, *long)
    turned = [shape[place] for place in order]
    return order if is_contiguous(turned, [stride[place] for place in order]) else None


def is_contiguous(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Tell whether elements lie in row-major order without gaps, whatever the strides of dimensions of length 1."""
    if 0 in shape:
        return True
    expected = contiguous_stride(tuple(shape))
    return all(length == 1 or is_ == must for length, is_, must in zip(shape, stride, expected, strict=True))


def has_overlaps(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Tell whether elements share memory, or may: a dimension steps no further than the smaller ones reach."""
    reach = 0
    for step, length in sorted((step, length) for step, length in zip(stride, shape, strict=True) if length > 1):
        if step <= reach:
            return True
        reach += (length - 1) * step
    return False
