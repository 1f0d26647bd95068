"""One form for graphs that compute the same: what a tracer leaves and no engine needs is taken out.

In-place operators become ordinary ones where that is plainly the same.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import fx

from jumar.tune.graph.graph import Graph


def has_in_place(module: fx.GraphModule) -> bool:
    """Tell whether an operator of the graph writes to one of its arguments."""
    return any(map(_is_in_place, module.graph.nodes))


def without_plain_in_place(module: fx.GraphModule) -> None:
    """Replace in-place operators after which nothing reads the memory they write to, but through their result.

    Where the result would have another dtype (`x -= y` with a `y` of more bits, `x.gt_(0)`), they stay.
    Which values share memory is read from the (fake) tensors in `meta["val"]`.
    """
    positions = {node: place for place, node in enumerate(module.graph.nodes)}
    sharing: dict[int, list[fx.Node]] = {}
    for node in positions:
        for storage in _storages(node):
            sharing.setdefault(storage, []).append(node)
    for node in positions:
        if not _is_in_place(node):
            continue
        ordinary = _ordinary(node.target)
        if ordinary is not None and _is_last_word(node, sharing, positions) and _keeps_dtype(node, ordinary):
            node.target = ordinary
    module.recompile()


def _is_in_place(node: fx.Node) -> bool:
    target = node.target
    return node.op == "call_function" and isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


def _is_last_word(node: fx.Node, sharing: dict[int, list[fx.Node]], positions: dict[fx.Node, int]) -> bool:
    written = node.args[0] if node.args else None
    if not isinstance(written, fx.Node) or not (storages := list(_storages(written))):
        return False
    here = positions[node]
    for storage in storages:
        for other in sharing[storage]:
            if other.op != "call_function":
                return False
            if positions[other] < here and any(positions[user] > here for user in other.users):
                return False
    return True


def _keeps_dtype(node: fx.Node, ordinary: torch._ops.OpOverload) -> bool:
    """Tell whether the ordinary operator gives the dtype that what is written to has, and in place keeps."""
    if any("val" not in one.meta for one in node.all_input_nodes):
        return False
    arguments, keywords = fx.map_arg((node.args, node.kwargs), lambda one: one.meta["val"])
    return bool(ordinary(*arguments, **keywords).dtype == node.meta["val"].dtype)


def _storages(node: fx.Node) -> Iterator[int]:
    """Yield what identifies the memory that a node's result is in."""
    value: Any = node.meta.get("val")
    for one in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(one, torch.Tensor) and one.layout is torch.strided and not _is_wrapped(one):
            yield one.untyped_storage()._cdata


def _is_wrapped(value: torch.Tensor) -> bool:
    """Tell whether a tensor is one of `torch.func`'s, such as a row inside of `vmap`, which has no memory."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(value))


def _ordinary(target: Any) -> torch._ops.OpOverload | None:
    """Return the operator that computes what an in-place one writes; None when there is none of the same arguments."""
    namespace, _, name = target._schema.name.partition("::")
    if not name.endswith("_") or name.endswith("__"):
        return None
    packet = getattr(getattr(torch.ops, namespace), name[:-1], None)
    found = getattr(packet, target._overloadname, None) if packet is not None else None
    if not isinstance(found, torch._ops.OpOverload):
        return None
    own, other = ([one.name for one in op._schema.arguments] for op in (target, found))
    return found if own == other and len(found._schema.returns) == 1 else None


aten = torch.ops.aten

_PASSING = {
    aten.alias.default, aten.detach.default, aten.lift_fresh.default, aten.lift_fresh_copy.default,
    aten.clone.default, aten.contiguous.default, aten.to.dtype, aten.to.dtype_layout, aten.to.device, aten.to.other,
    aten._to_copy.default, aten.type_as.default, aten.expand.default, aten.view.default, aten.reshape.default,
    aten.positive.default,
}  # fmt: skip
"""Operators that do nothing where what they return looks as what they take."""

_COPIES = {aten.clone.default, aten.lift_fresh_copy.default, aten._to_copy.default, operator.getitem}
"""Those of them, and of dropouts, that return memory of their own: `native_dropout` has several results."""

_DROPOUTS = {
    aten.dropout.default: 2, aten.feature_dropout.default: 2, aten.alpha_dropout.default: 2,
    aten.feature_alpha_dropout.default: 2, aten.native_dropout.default: 2,
}  # fmt: skip
"""Operators that do nothing when the argument at this place is False."""

_FOLDED_BYTES = 16 << 20
"""What is computed from weights alone is stored in their place up to this size, or up to the size of what it reads."""


def simplify(module: fx.GraphModule, weights: Mapping[fx.Node, torch.Tensor]) -> None:
    """Take out operators without effect, and compute what depends on weights alone. `meta["val"]` must be there.

    Only what the outputs need is looked at; copies stay where results would be the memory of an input or of each other.
    """
    for node in list(module.graph.nodes):
        if node.op != "call_function":
            continue
        if node.target is aten._native_batch_norm_legit_no_training.default:
            _rename_batch_norm(node)
        elif node.target is aten.unbind.int:
            _select_items(node)
    _pass_on(module.graph, copies=False)
    _pass_on(module.graph, copies=True)  # which of them must stay shows when nothing else is in between
    module.graph.eliminate_dead_code()
    _fold(module, dict(weights))
    module.recompile()


def in_order(graph: Graph, tensors: Mapping[int, torch.Tensor]) -> tuple[Graph, dict[int, torch.Tensor], list[int]]:
    """Return the graph with its variable inputs first and its weights after them, both in the order of first use.

    Weights that are the same memory are one input; unused inputs are left out. `tensors` and the result have values
    by place; also returned: for each input of the new graph its old place.
    """
    same = _same_memory(graph, tensors)
    used = [same.get(value, value) for node in graph.nodes for value in node.references()]
    used += [same.get(value, value) for value in graph.outputs if value is not None]
    inputs = [place for place in dict.fromkeys(used) if place < len(graph.inputs)]
    # Variables by first use as well: TorchDynamo and torch.export hand them over in different orders.
    order = sorted(inputs, key=lambda place: graph.inputs[place].constant)
    made = graph.with_inputs(order, same)
    numbers = {place: number for number, place in enumerate(order)}
    return made, {numbers[place]: tensor for place, tensor in tensors.items() if place in numbers}, order


def _same_memory(graph: Graph, tensors: Mapping[int, torch.Tensor]) -> dict[int, int]:
    """Return, for each weight that is the same memory as an earlier one, the place of that."""
    first: dict[tuple[Any, ...], int] = {}
    same = {}
    for place in graph.constants:
        tensor = tensors.get(place)
        if tensor is None or not tensor.numel():
            continue
        look = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())
        same[place] = first.setdefault(look, place)
    return {place: earlier for place, earlier in same.items() if place != earlier}


def _pass_on(graph: fx.Graph, *, copies: bool) -> None:
    """Take out what passes a value on: copies, or everything else."""
    output = graph.output_node()
    for node in list(graph.nodes):
        source = _source_of(node) if node.op == "call_function" else None
        if source is not None and _copies(node) == copies and not _parts(node, source, output):
            node.replace_all_uses_with(source)
            graph.erase_node(node)


def _parts(node: fx.Node, source: fx.Node, output: fx.Node) -> bool:
    """Tell whether a result would be an input itself without `node`, or be in memory that an input or result has."""
    if source.op == "placeholder" and node in output.all_input_nodes:
        return True
    if not _copies(node):
        return False
    results, held = {origin(result) for result in output.all_input_nodes}, origin(source)
    return node in results and (held in results or held.op != "call_function")


def _copies(node: fx.Node) -> bool:
    """Tell whether what a node passes on is in memory of its own."""
    return node.target in _COPIES or is_told_to_copy(node)


def _source_of(node: fx.Node) -> fx.Node | None:
    """Return the value that a node without effect passes on."""
    source = node.args[0] if node.args else None
    if node.target is operator.getitem and isinstance(source, fx.Node) and node.args[1] == 0:
        return _source_of(source) if source.target is aten.native_dropout.default else None
    if not isinstance(source, fx.Node):
        return None
    switch = _DROPOUTS.get(node.target)  # type: ignore[call-overload]
    if switch is not None:
        return source if len(node.args) > switch and node.args[switch] is False else None
    if node.target in _PASSING and _looks_alike(source.meta.get("val"), node.meta.get("val")):
        return source
    return None


def _looks_alike(source: Any, value: Any) -> bool:
    if not isinstance(source, torch.Tensor) or not isinstance(value, torch.Tensor):
        return False
    return (source.shape, source.dtype, source.device) == (value.shape, value.dtype, value.device) and (
        source.stride() == value.stride()
    )


def _rename_batch_norm(node: fx.Node) -> None:
    """Write BatchNorm of inference as exporting without functionalising does: with one result."""
    items = list(node.users)
    if any(item.target is not operator.getitem or item.args[1] != 0 for item in items):
        return
    source, weight, bias, mean, variance, momentum, epsilon = node.args
    with node.graph.inserting_before(node):
        made = node.graph.call_function(
            aten.batch_norm.default, (source, weight, bias, mean, variance, False, momentum, epsilon, False)
        )
    for item in items:
        made.meta["val"] = item.meta["val"]
        item.replace_all_uses_with(made)
        node.graph.erase_node(item)
    node.graph.erase_node(node)


def _select_items(node: fx.Node) -> None:
    """Write what a tensor is unpacked to (`q, k, v = x`) as TorchDynamo does: item by item."""
    if any(item.target is not operator.getitem for item in node.users):
        return
    source, *rest = node.args
    dimension = rest[0] if rest else node.kwargs.get("dim", 0)
    for item in list(node.users):
        with node.graph.inserting_before(item):
            made = node.graph.call_function(aten.select.int, (source, dimension, item.args[1]))
        made.meta["val"] = item.meta["val"]
        item.replace_all_uses_with(made)
        node.graph.erase_node(item)
    node.graph.erase_node(node)


def _fold(module: fx.GraphModule, known: dict[fx.Node, torch.Tensor]) -> None:
    """Replace what weights alone decide by tensors that the module holds."""
    results: dict[fx.Node, Any] = dict(known)
    for node in list(module.graph.nodes):
        if node.op == "get_attr":
            value = getattr(module, str(node.target), None)
            if isinstance(value, torch.Tensor):
                results[node] = value
        elif _is_decided(node, results):
            arguments, keywords = fx.map_arg((node.args, node.kwargs), results.__getitem__)
            with torch.no_grad():
                results[node] = node.target(*arguments, **keywords)
    computed = {node for node in results if node.op == "call_function"}
    for number, node in enumerate(list(module.graph.nodes)):
        if node in computed and isinstance(results[node], torch.Tensor) and not set(node.users) <= computed:
            name = f"folded_{number}"
            module.register_buffer(name, results[node].detach(), persistent=False)
            with module.graph.inserting_before(node):
                held = module.graph.get_attr(name)
            held.meta["val"] = node.meta["val"]
            node.replace_all_uses_with(held)
    module.graph.eliminate_dead_code()


def _is_decided(node: fx.Node, results: Mapping[fx.Node, Any]) -> bool:
    """Tell whether a node's result depends on weights alone, and is small enough to be stored."""
    if node.op != "call_function" or not all(source in results for source in node.all_input_nodes):
        return False
    if node.target is operator.getitem:
        return True
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable:
        return False
    if torch.Tag.nondeterministic_seeded in node.target.tags:
        return False
    made = node.meta.get("val")
    values = [value for value in (made if isinstance(made, (list, tuple)) else [made]) if value is not None]
    if not values or not all(isinstance(value, torch.Tensor) for value in values):
        return False
    sources = (results[source] for source in node.all_input_nodes)
    read = sum(source.nbytes for source in sources if isinstance(source, torch.Tensor))
    size = sum(int(value.numel()) * int(value.element_size()) for value in values)
    return size <= max(read, _FOLDED_BYTES)


def origin(node: fx.Node) -> fx.Node:
    """Return what a value is a view of, or may be; itself when it is none."""
    while (source := _seen_by(node)) is not None:
        node = source
    return node


def _seen_by(node: fx.Node) -> fx.Node | None:
    source = node.args[0] if node.op == "call_function" and node.args else None
    if not isinstance(source, fx.Node):
        return None
    if node.target is operator.getitem:  # of a view's several results, such as a split's
        return source if _seen_by(source) is not None else None
    target = node.target
    is_view = isinstance(target, torch._ops.OpOverload) and any(
        one.alias_info is not None and not one.alias_info.is_write for one in target._schema.returns
    )
    return source if is_view and not is_told_to_copy(node) else None


def is_told_to_copy(node: fx.Node) -> bool:
    """Tell whether an operator is called with `copy=True`."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    names = (one.name for one in node.target._schema.arguments)
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    return given.get("copy") is True
