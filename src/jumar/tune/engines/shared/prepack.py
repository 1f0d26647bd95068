"""Weights of convolutions and linear layers in oneDNN's own blocks, or those of linear layers in MKL's."""

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
from jumar.tune.engines.shared.mkl import CONVOLUTIONS, is_packable, operands, option, pack
from jumar.tune.graph.values import annotated
from jumar.tune.model.errors import TuneError

aten = torch.ops.aten
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
