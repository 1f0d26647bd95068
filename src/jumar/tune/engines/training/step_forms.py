"""The forward of a training step rewritten before it is differentiated, so that its backward has the same form.

A module of `torch.fx` is rewritten at any level above autograd: as TorchDynamo hands it over, or of aten operators.
Its arguments and results keep their strides; what lies between has its channels last:

- images and filters are converted where they enter (small for filters; autograd converts their gradients back);
- `view` becomes `reshape` (`view_as`: `reshape_as`), which copies where strides do not allow a view;
- a shuffle of channels (`view`, `transpose`, `view`) exchanges the last dimension's parts and leaves the layout;
- with `norms`, batch normalisation and a ReLU behind it are a kernel of our own (`batch_norm`);
- with `products`, a convolution of one pixel is a matrix product over the channels, forward and backward: with one
  thread and few images PyTorch computes such convolutions by a path that is slow in its backward.

`why_layout_stays` finds modules that another layout would change: those that read strides, and those that write to
memory that a view shares. `reshape` shares memory in one layout and copies in another, and so do `flatten` and
`contiguous`. Whether a write is then seen through a view depends on the layout. A write before any view is made is
safe.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.nn import functional

from jumar.base.findings import Json
from jumar.operators import has
from jumar.tune.engines.training.batch_norm import batch_norm
from jumar.tune.graph.operators import node_draws
from jumar.tune.model.errors import TuneError


def name_of(node: fx.Node) -> str:
    """Return what a node calls, without where it is found: `conv2d`, `relu_`."""
    if node.op == "call_method":
        return str(node.target)
    if node.op != "call_function":
        return ""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.name.partition("::")[2].removeprefix("_unsafe_")
    return getattr(node.target, "__name__", "")


def value_of(node: Any) -> torch.Tensor | None:
    """Return the tensor that a node makes, None for anything else."""
    if not isinstance(node, fx.Node):
        return None
    value = node.meta.get("val", node.meta.get("example_value"))
    return value if isinstance(value, torch.Tensor) else None


"""What shares memory with its input in one layout and copies in another; `view` is written as `reshape`."""
_STRIDED = frozenset({"as_strided", "stride", "is_contiguous", "storage_offset", "data_ptr", "untyped_storage"})
_ASSIGNMENTS = frozenset(
    {
        operator.iadd,
        operator.iand,
        operator.ifloordiv,
        operator.ilshift,
        operator.imod,
        operator.imul,
        operator.ior,
        operator.ipow,
        operator.irshift,
        operator.isub,
        operator.itruediv,
        operator.ixor,
        operator.setitem,
    }
)


def why_layout_stays(graph: fx.Graph) -> str:
    """Return why another layout of its tensors would change a module, as a sentence; empty where it does not."""
    groups = _Groups()
    for node in graph.nodes:
        name = name_of(node)
        if name in _STRIDED:
            return f"the model reads strides ({name}), so that its layout is left as it is."
        written = list(_written_by(node))
        if any(groups.is_dependent(one) for one in written):
            return f"{name} writes to what a view shares, and another layout would make that view a copy."
        groups.add(node, written)
    return ""


class _Groups:
    """Which values may share memory, and for which of them that depends on the layout."""

    def __init__(self) -> None:
        self._parents: dict[fx.Node, fx.Node] = {}
        self._dependent: set[fx.Node] = set()
        self._owners: dict[int, fx.Node] = {}

    def is_dependent(self, node: fx.Node) -> bool:
        """Tell whether it depends on the layout which values see a write to this one."""
        return self._first(node) in self._dependent

    def add(self, node: fx.Node, written: list[fx.Node]) -> None:
        """Take a node in; `written` are the values that it writes to, one of which it may return."""
        may_copy = name_of(node) in {"view", "view_as"} or has(name_of(node), "may_copy")
        sharing = [self._owner(node), *(node.all_input_nodes[:1] if may_copy else written[:1])]
        firsts = {self._first(one) for one in sharing if one is not None}
        is_dependent = may_copy or any(one in self._dependent for one in firsts)
        self._parents |= dict.fromkeys(firsts, node)
        if is_dependent:
            self._dependent.add(node)

    def _owner(self, node: fx.Node) -> fx.Node | None:
        """Return the node that first had the memory of this node's value."""
        value = value_of(node)
        if value is None or value.layout is not torch.strided:
            return None
        owner = self._owners.setdefault(value.untyped_storage()._cdata, node)
        return None if owner is node else owner

    def _first(self, node: fx.Node) -> fx.Node:
        while node in self._parents:
            node = self._parents[node]
        return node


def _written_by(node: fx.Node) -> Iterator[fx.Node]:
    """Yield the values that a node changes in place."""
    if isinstance(node.target, torch._ops.OpOverload):
        found = _written_by_schema(node)
    elif _is_in_place(node):
        found = [node.args[0] if node.args else node.kwargs.get("input")]
    else:
        found = []
    for value in (*found, node.kwargs.get("out")):
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, fx.Node):
                yield one


def _written_by_schema(node: fx.Node) -> list[Any]:
    target: Any = node.target
    return [
        node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
        for place, argument in enumerate(target._schema.arguments)
        if argument.is_write
    ]


def _is_in_place(node: fx.Node) -> bool:
    name = name_of(node)
    if node.target in _ASSIGNMENTS or name == "__setitem__" or (name.endswith("_") and not name.endswith("__")):
        return True
    return node.op == "call_function" and bool(_inplace_argument(node))


def _inplace_argument(node: fx.Node) -> Any:
    """Return what a function such as `functional.relu` is told by its argument `inplace`."""
    if "inplace" in node.kwargs or len(node.args) <= 1:
        return node.kwargs.get("inplace")
    target: Any = node.target
    try:
        return inspect.signature(target).bind(*node.args, **node.kwargs).arguments.get("inplace")
    except (TypeError, ValueError):  # built in, so that it has no such argument
        return None


CHANNELS_LAST = "channels_last"
_IMAGE = 4
_RESHAPES = {"view": "reshape", "view_as": "reshape_as"}
"""What needs strides that another layout has not, and what copies where it must."""


def in_form(module: fx.GraphModule, settings: Mapping[str, Json]) -> fx.GraphModule:
    """Return the module in the form that the settings say, itself where they say none; it is left as it was.

    Nodes must carry their (fake) values. Raises TuneError for a module that depends on strides.
    """
    if settings.get("layout") != CHANNELS_LAST:
        return module
    made = fx.GraphModule(module, _copied(module))
    if why := why_layout_stays(made.graph) or _why_numbers_move(made.graph):
        raise TuneError(why)
    for node in list(made.graph.nodes):
        if name_of(node) in _RESHAPES and _is_reshape(node):
            _as_reshape(node)
        elif settings.get("products") and name_of(node) == "conv2d" and _is_of_one_pixel(node):
            _as_product(made.graph, node)
    for node in list(made.graph.nodes):
        _as_last_shuffle(made.graph, node)
        if settings.get("norms") and name_of(node) == "batch_norm":
            _as_own_norm(made.graph, node)
    _convert_borders(made.graph)
    made.graph.lint()  # nothing is cleared away: what no one reads may write to a buffer
    made.recompile()
    return made


def _why_numbers_move(graph: fx.Graph) -> str:
    """Return why another layout would give elements other random numbers: those are drawn in the order of memory."""
    for node in graph.nodes:
        value = value_of(node)
        if value is not None and node_draws(node) and _depends_on_layout(value):
            return f"{name_of(node)} draws a number for each element of images, and a layout moves them in memory."
    return ""


def _depends_on_layout(value: torch.Tensor) -> bool:
    return value.dim() == _IMAGE and value.shape[1] > 1 and math.prod(value.shape[2:]) > 1


def _copied(module: fx.GraphModule) -> fx.Graph:
    made, values = fx.Graph(), dict[fx.Node, fx.Node]()
    output = made.graph_copy(module.graph, values)
    made.output(output)
    return made


def _is_reshape(node: fx.Node) -> bool:
    """Tell whether a view changes the shape, not the dtype."""
    return not any(isinstance(argument, torch.dtype) for argument in (*node.args[1:], *node.kwargs.values()))


def _as_reshape(node: fx.Node) -> None:
    name = _RESHAPES[name_of(node)]
    node.target = name if node.op == "call_method" else getattr(torch.ops.aten, name).default


# ---- convolutions of one pixel -----------------------------------------------------------------------------------


def _convolution(node: fx.Node) -> dict[str, Any]:
    names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
    usual = {"bias": None, "stride": 1, "padding": 0, "dilation": 1, "groups": 1}
    return usual | dict(zip(names, node.args, strict=False)) | dict(node.kwargs)


def _is_of_one_pixel(node: fx.Node) -> bool:
    call = _convolution(node)
    weight, image = value_of(call["weight"]), value_of(call["input"])
    if weight is None or image is None or image.dim() != _IMAGE or tuple(weight.shape[2:]) != (1, 1):
        return False
    return call["groups"] == 1 and _all_are(call["stride"], 1) and _all_are(call["padding"], 0)


def _all_are(numbers: Any, number: int) -> bool:
    return all(one == number for one in (numbers if isinstance(numbers, (list, tuple)) else [numbers]))


def _as_product(graph: fx.Graph, node: fx.Node) -> None:
    call = _convolution(node)
    with graph.inserting_before(node):
        rows = graph.call_function(torch.permute, (call["input"], (0, 2, 3, 1)))
        matrix = graph.call_function(torch.flatten, (call["weight"], 1))
        product = graph.call_function(functional.linear, (rows, matrix, call["bias"]))
        made = graph.call_function(torch.permute, (product, (0, 3, 1, 2)))
    _replace(graph, node, made)


# ---- shuffles of channels ----------------------------------------------------------------------------------------


def _as_last_shuffle(graph: fx.Graph, last: fx.Node) -> None:
    """Rewrite a shuffle that ends here; leave everything else."""
    found = _shuffle_before(last)
    if found is None:
        return
    before: Any = last.args[0]
    source, (batch, groups, each, height, width) = found
    with graph.inserting_before(last):
        rows = graph.call_function(torch.permute, (source, (0, 2, 3, 1)))
        parts = graph.call_function(torch.reshape, (rows, (batch, height, width, groups, each)))
        turned = graph.call_function(torch.transpose, (parts, 3, 4))
        joined = graph.call_function(torch.reshape, (turned, (batch, height, width, groups * each)))
        made = graph.call_function(torch.permute, (joined, (0, 3, 1, 2)))
    _replace(graph, last, made)
    while isinstance(before, fx.Node) and before is not source and not before.users:
        unread, before = before, before.args[0]
        graph.erase_node(unread)


def _shuffle_before(last: fx.Node) -> tuple[fx.Node, Sequence[int]] | None:
    """Return the images whose channels are shuffled, and the five sizes of the view; None for another computation."""
    if name_of(last) != "reshape" or not isinstance(last.args[0], fx.Node):
        return None
    turned: Any = last.args[0]
    if name_of(turned) in {"contiguous", "clone"} and not turned.kwargs and len(turned.args) == 1:
        turned = turned.args[0]
    parts: Any = turned.args[0] if isinstance(turned, fx.Node) and _exchanges_channels(turned) else None
    if not isinstance(parts, fx.Node) or name_of(parts) != "reshape":
        return None
    source: Any = parts.args[0]
    images, divided, result = value_of(source), value_of(parts), value_of(last)
    if images is None or divided is None or result is None or images.dim() != _IMAGE or divided.dim() != _IMAGE + 1:
        return None
    sizes = tuple(divided.shape)
    outer = (sizes[0], math.prod(sizes[1:3]), *sizes[3:])
    return (source, sizes) if outer == tuple(images.shape) == tuple(result.shape) else None


def _exchanges_channels(node: fx.Node) -> bool:
    value = value_of(node)
    if value is None or value.dim() != _IMAGE + 1:
        return False
    numbers: list[Any] = [*node.args[1:], *node.kwargs.values()]
    if name_of(node) == "transpose":
        return sorted(numbers) == [1, 2]
    flat = numbers[0] if len(numbers) == 1 else numbers
    return name_of(node) == "permute" and list(flat) == [0, 2, 1, 3, 4]


# ---- batch normalisation -----------------------------------------------------------------------------------------


def _as_own_norm(graph: fx.Graph, node: fx.Node) -> None:
    """Have our kernel compute a batch normalisation in training, and the ReLU that alone reads it."""
    call = _normalisation(node)
    images = value_of(call["input"])
    if images is None or images.dim() != _IMAGE or call["training"] is not True or call["momentum"] is None:
        return
    if call["weight"] is None or call["bias"] is None:
        return
    (reader,) = node.users if len(node.users) == 1 else (None,)
    relu = reader if reader is not None and name_of(reader) in {"relu", "relu_"} else None
    arguments = [call[name] for name in ("input", "running_mean", "running_var", "weight", "bias", "momentum", "eps")]
    last = relu or node
    with graph.inserting_before(node):
        made = graph.call_function(batch_norm, (*arguments, relu is not None))
    _replace(graph, last, made)
    if relu is not None:
        graph.erase_node(node)


def _normalisation(node: fx.Node) -> dict[str, Any]:
    statistics, affine = ("running_mean", "running_var"), ("weight", "bias")
    order = (*statistics, *affine) if node.target is functional.batch_norm else (*affine, *statistics)
    names = ("input", *order, "training", "momentum", "eps")
    usual = {"weight": None, "bias": None, "training": False, "momentum": 0.1, "eps": 1e-5}
    return usual | dict(zip(names, node.args, strict=False)) | dict(node.kwargs)


# ---- borders -----------------------------------------------------------------------------------------------------


def _convert_borders(graph: fx.Graph) -> None:
    placeholders = graph.find_nodes(op="placeholder")
    first = next((node for node in graph.nodes if node.op != "placeholder"), None)
    for node in placeholders:
        value = value_of(node)
        if value is None or value.dim() != _IMAGE or not value.is_floating_point() or not node.users:
            continue
        with graph.inserting_before(first):
            made = graph.call_method("contiguous", (node,), {"memory_format": torch.channels_last})
        node.replace_all_uses_with(made, delete_user_cb=lambda user, made=made: user is not made)
    output = graph.output_node()
    for node in output.all_input_nodes:
        layout = _layout_of(node)
        if layout is None:
            continue
        with graph.inserting_before(output):
            made = graph.call_method("contiguous", (node,), {"memory_format": layout})
        output.replace_input_with(node, made)


def _layout_of(node: fx.Node) -> torch.memory_format | None:
    """Return what a result must be converted to, None where no layout can have changed its strides."""
    value = value_of(node)
    if value is None or node.op == "placeholder":
        return None
    if value.is_contiguous():
        return torch.contiguous_format
    if value.dim() == _IMAGE and value.is_contiguous(memory_format=torch.channels_last):
        return torch.channels_last
    raise TuneError(f"a result has strides {value.stride()}, which no layout has; the model's layout is left as it is.")


def _replace(graph: fx.Graph, old: fx.Node, new: fx.Node) -> None:
    new.meta = dict(old.meta)
    old.replace_all_uses_with(new)
    graph.erase_node(old)
