"""`apex.fp16_utils`: float16 models and float32 master weights by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from jumar.amp.cast.casting import cast, convert_network

__all__ = [
    "BN_convert_float", "FP16Model", "convert_network", "master_params_to_model_params",
    "model_grads_to_master_grads", "network_to_half", "prep_param_lists", "to_python_float", "tofp16",
]  # fmt: skip


class tofp16(nn.Module):  # apex's name
    """Cast the input to float16."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return `x` in float16."""
        return x.half()


def BN_convert_float(module: nn.Module) -> nn.Module:  # apex's name
    """Cast affine batch normalizations to float32 in place."""
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.affine:
            part.float()
    return module


def network_to_half(network: nn.Module) -> nn.Module:
    """Return the network in float16, batch normalizations in float32, with a cast in front."""
    return nn.Sequential(tofp16(), BN_convert_float(network.half()))


class FP16Model(nn.Module):
    """A network in float16 (batch normalizations in float32) whose inputs are cast."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = convert_network(network, torch.float16)

    def forward(self, *inputs: Any) -> Any:
        """Return the network's output for inputs cast to float16."""
        return self.network(*cast(inputs, torch.float16))


def prep_param_lists(model: nn.Module, flat_master: bool = False) -> tuple[list[Any], list[Any]]:
    """Return the model's weights and float32 copies of them. Raises NotImplementedError for `flat_master`."""
    if flat_master:
        raise NotImplementedError("apex.fp16_utils.prep_param_lists(flat_master=True) is not emulated; pass False.")
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return weights, [parameter.detach().clone().float().requires_grad_() for parameter in weights]


@torch.no_grad()
def model_grads_to_master_grads(
    model_params: Iterable[Any],
    master_params: Iterable[Any],
    flat_master: bool = False,  # noqa: ARG001  # apex's; masters made here are never flat
) -> None:
    """Copy gradients of the model's weights to the masters, in float32."""
    for parameter, master in zip(model_params, master_params, strict=True):
        master.grad = None if parameter.grad is None else parameter.grad.detach().float()


@torch.no_grad()
def master_params_to_model_params(
    model_params: Iterable[Any],
    master_params: Iterable[Any],
    flat_master: bool = False,  # noqa: ARG001  # apex's; masters made here are never flat
) -> None:
    """Copy the masters into the model's weights."""
    for parameter, master in zip(model_params, master_params, strict=True):
        parameter.copy_(master)


def to_python_float(tensor: Any) -> float:
    """Return the only value of a tensor, or the first of a sequence."""
    return float(tensor.item() if hasattr(tensor, "item") else tensor[0])
