"""Weights of convolutions and linear layers in oneDNN's own blocks, or those of linear layers in MKL's.

On many x86 processors MKL's packed linear layers are faster than oneDNN's blocks. MKL's packed weights cannot be
written to a file or copied to another address, so a compiled library cannot hold them: it holds the plain weights and
calls the operator `jumar_tune::packed_linear`, which packs a weight at the first call.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from jumar.tune.engines.base import GraphFunction, Site
from jumar.tune.engines.shared.borders import inside_constants, with_borders, with_weights
from jumar.tune.engines.shared.channels import of_any_strides
from jumar.tune.engines.shared.cut import cut
from jumar.tune.graph.fx import annotated
from jumar.tune.model.errors import TuneError

aten = torch.ops.aten
CONVOLUTIONS = (aten.conv2d.default, aten.conv3d.default)


def is_packable(node: fx.Node) -> bool:
    """Tell whether a node is a convolution or linear layer in float32 with constant weights."""
    if node.target not in (*CONVOLUTIONS, aten.linear.default):
        return False
    x, weight, bias = operands(node)
    constant = weight.op == "get_attr" and (bias is None or bias.op == "get_attr")
    fine = constant and x.meta["val"].dtype is torch.float32 and x.meta["val"].numel() > 0
    return fine and not isinstance(option(node, 4, "padding", 0), str) and x.meta["val"].dim() >= 2


def operands(node: fx.Node) -> tuple[Any, Any, Any]:
    """Return the nodes of input, weight and bias (or None) of a convolution or linear layer."""
    return node.args[0], option(node, 1, "weight", None), option(node, 2, "bias", None)


def option(node: fx.Node, place: int, name: str, default: Any) -> Any:
    """Return an argument of a node by its place, or its name."""
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)


_LIBRARY = torch.library.Library("jumar_tune", "DEF")  # type: ignore[no-untyped-call]
_LIBRARY.define("packed_linear(Tensor x, Tensor weight) -> Tensor")  # type: ignore[no-untyped-call]


def pack(weight: torch.Tensor, num_rows: int) -> torch.Tensor:
    """Return `weight` (outputs × inputs, float32) packed for products with `num_rows` rows.

    Raises TuneError where PyTorch was built without MKL.
    """
    if not torch._C.has_mkl:
        raise TuneError("this PyTorch has no MKL, which would have packed the weights.")
    packed: torch.Tensor = torch.ops.mkl._mkl_reorder_linear_weight(weight, num_rows)
    return packed


def call_mkl(module: fx.GraphModule) -> int:
    """Let the linear layers with constant float32 weights call MKL; return how many there are.

    `module` is one of `jumar.tune.graph.fx.annotated` with its weights bound. The bias stays an addition of its
    own, for a compiler to put together with what follows.
    """
    nodes = [node for node in module.graph.nodes if node.target is torch.ops.aten.linear.default and is_packable(node)]
    for node in nodes:
        x, weight, bias = operands(node)
        with module.graph.inserting_before(node):
            made = module.graph.call_function(torch.ops.jumar_tune.packed_linear.default, (x, weight))
            if bias is not None:
                made = module.graph.call_function(torch.ops.aten.add.Tensor, (made, bias))
        made.meta = node.meta
        node.replace_all_uses_with(made)
        module.graph.erase_node(node)
    module.recompile()
    return len(nodes)


def _packed_linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    num_rows = x.shape[:-1].numel()
    known: Any = getattr(weight, "_jumar_packed", None)
    if known is None or known[0] != num_rows:
        # Kept with the weight, which lives as long as the library that holds it.
        known = weight._jumar_packed = num_rows, pack(weight, num_rows)  # type: ignore[attr-defined]
    product: torch.Tensor = torch.ops.mkl._mkl_linear(x, known[1], weight, None, num_rows)
    return product


def _like_packed_linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


_LIBRARY.impl("packed_linear", _packed_linear, "CPU")  # type: ignore[no-untyped-call]
_LIBRARY.impl("packed_linear", _like_packed_linear, "Meta")  # type: ignore[no-untyped-call]


NORMS: dict[Any, int] = {aten.batch_norm.default: 7, aten._native_batch_norm_legit_no_training.default: 6}
"""Normalisations, and the place of their epsilon."""


def packed(site: Site, *, by_mkl: bool = False) -> GraphFunction:
    """Return the function with packed weights, those of linear layers by MKL where asked for.

    Raises TuneError where there is nothing to pack, or no MKL.
    """
    made = cut(site.graph)
    graph = of_any_strides(made.inside)
    module = with_weights(annotated(graph), graph, inside_constants(site, made))
    num_packed = 0
    for node in list(module.graph.nodes):
        if is_packable(node):
            _fold_norm(module, node)
            _pack(module, node, by_mkl=by_mkl)
            num_packed += 1
    if not num_packed:
        raise TuneError("the graph has no convolution or linear layer in float32 whose weights oneDNN can pack.")
    module.graph.eliminate_dead_code()
    module.recompile()
    run = module.forward

    def inside(inputs: list[torch.Tensor]) -> Sequence[torch.Tensor]:
        return [output.contiguous() for output in run(*inputs)]

    return with_borders(site, made, inside)


def _fold_norm(module: fx.GraphModule, node: fx.Node) -> None:
    """Multiply a batch normalisation that follows a convolution into its weights."""
    if node.target not in CONVOLUTIONS or len(node.users) != 1:
        return
    (norm,) = node.users
    made = _made_by(norm)
    if not made or norm.args[0] is not node:
        return
    parameters = [_value(module, argument) for argument in norm.args[1:5]]
    if any(value is None and argument is not None for value, argument in zip(parameters, norm.args[1:5], strict=True)):
        return
    weight, bias = (_value(module, operand) for operand in operands(node)[1:])
    assert weight is not None
    factor, offset = _affine(parameters, float(norm.args[NORMS[norm.target]]), weight)  # type: ignore[arg-type]
    shape = (-1, *(1 for _ in weight.shape[1:]))
    folded = offset if bias is None else offset + bias * factor
    with module.graph.inserting_before(node):
        _set(node, 1, "weight", _attribute(module, weight * factor.reshape(shape)))
        _set(node, 2, "bias", _attribute(module, folded))
    for value in made:
        value.replace_all_uses_with(node)
        module.graph.erase_node(value)
    if norm not in made:
        module.graph.erase_node(norm)


def _affine(parameters: Sequence[Any], epsilon: float, like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return factor and offset of y = factor · x + offset, computed in float64."""
    gamma, beta, mean, variance = parameters
    factor = torch.rsqrt(variance.double() + epsilon)
    factor = factor if gamma is None else factor * gamma.double()
    offset = -mean.double() * factor
    offset = offset if beta is None else offset + beta.double()
    return factor.to(like.dtype), offset.to(like.dtype)


def _pack(module: fx.GraphModule, node: fx.Node, *, by_mkl: bool) -> None:
    x, weight, bias = operands(node)
    value = _value(module, weight)
    assert value is not None
    size = x.meta["val"].shape
    target: Any
    arguments: tuple[Any, ...]
    with module.graph.inserting_before(node):
        if node.target is aten.linear.default:
            rows = size[:-1].numel()
            if by_mkl:
                blocks = _attribute(module, pack(value, rows))
                target, arguments = torch.ops.mkl._mkl_linear.default, (x, blocks, weight, bias, rows)
            else:
                blocks = _attribute(module, torch.ops.mkldnn._reorder_linear_weight(value, rows))
                target, arguments = torch.ops.mkldnn._linear_pointwise.default, (x, blocks, bias, "none", [], "")
        else:
            stride, padding, dilation = (
                _pair(option(node, place, name, default), value.dim() - 2)
                for place, name, default in ((3, "stride", 1), (4, "padding", 0), (5, "dilation", 1))
            )
            groups = int(option(node, 6, "groups", 1))
            reorder = torch.ops.mkldnn._reorder_convolution_weight
            blocks = _attribute(module, reorder(value, padding, stride, dilation, groups, list(size)))
            follower = _relu_after(node)
            target = torch.ops.mkldnn._convolution_pointwise.default
            attribute = "none" if follower is None else "relu"
            arguments = (x, blocks, bias, padding, stride, dilation, groups, attribute, [], "")
            if follower is not None:
                follower.replace_all_uses_with(node)
                module.graph.erase_node(follower)
        made = module.graph.call_function(target, arguments)
        made.meta = node.meta
    node.replace_all_uses_with(made)
    module.graph.erase_node(node)


def _relu_after(node: fx.Node) -> fx.Node | None:
    users = list(node.users)
    return users[0] if len(users) == 1 and users[0].target is aten.relu.default else None


def _made_by(norm: fx.Node) -> list[fx.Node]:
    """Return what a normalisation with fixed statistics makes of its input; nothing for another node."""
    if norm.target is aten.batch_norm.default:
        return [norm] if norm.args[5] is False else []
    items = [user.args[1] if user.target is operator.getitem else -1 for user in norm.users]
    return list(norm.users) if norm.target in NORMS and set(items) == {0} else []


def _set(node: fx.Node, place: int, name: str, value: fx.Node) -> None:
    if len(node.args) > place:
        node.update_arg(place, value)
    else:
        node.update_kwarg(name, value)


def _pair(value: Any, count: int) -> list[int]:
    listed = list(value) if isinstance(value, (list, tuple)) else [value]
    return [int(item) for item in (listed if len(listed) == count else listed * count)]


def _value(module: fx.GraphModule, node: Any) -> torch.Tensor | None:
    return module.get_buffer(str(node.target)) if isinstance(node, fx.Node) and node.op == "get_attr" else None


def _attribute(module: fx.GraphModule, value: torch.Tensor) -> fx.Node:
    name = f"made_{len(module._buffers)}"
    module.register_buffer(name, value)
    return module.graph.get_attr(name)
