"""Normalisations: RMS, layer, deep and group norm, alone and fused with an addition or an activation.

The sums are in float32, as the vector unit makes them; `y` has the dtype of the input, the statistics are
float32. Formulas: the adapter's pages and CANN's aclnn pages of these operators.
"""

from __future__ import annotations

import torch

from jumar.npu.ops.helpers.checks import FLOATING, expect, require_dtype, wide
from jumar.npu.ops.mechanism.gradients import differentiate
from jumar.npu.ops.mechanism.implement import Step, derivative, implements

Tensor = torch.Tensor


def _dims(operator: str, x: Tensor, gamma: Tensor) -> list[int]:
    """Return the dimensions that are normalised: those of `gamma`, which are the last of `x`."""
    num = gamma.dim()
    rule = f"gamma must have the shape of the last dimensions of the input {tuple(x.shape)}"
    expect(0 < num <= x.dim() and x.shape[-num:] == gamma.shape, operator, rule, tuple(gamma.shape))
    return list(range(-num, 0))


def rms_scaled(operator: str, x: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return `x * rstd` and rstd, both in float32."""
    require_dtype(operator, FLOATING, input=x, gamma=gamma)
    wider = wide(x)
    rstd = torch.rsqrt(wider.square().mean(_dims(operator, x, gamma), keepdim=True) + epsilon)
    return wider * rstd, rstd


@implements("npu_rms_norm", outputs=(0,))
def rms_norm(x: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """`x / sqrt(mean(x^2) + epsilon) * gamma` over the dimensions of `gamma`; and rstd with those as 1."""
    scaled, rstd = rms_scaled("npu_rms_norm", x, gamma, epsilon)
    return (scaled * wide(gamma)).to(x.dtype), rstd


@derivative("npu_rms_norm", reads_results=True)
def _rms_norm_derivative(step: Step) -> dict[str, Tensor]:
    x, gamma = step.arguments["self"], step.arguments["gamma"]
    by_x, by_gamma = torch.ops.npu.npu_rms_norm_backward(step.gradients[0], x, gamma, step.results[1])
    return {"self": by_x, "gamma": by_gamma.to(gamma.dtype)}


@implements("npu_rms_norm_backward", differentiable=False)
def rms_norm_backward(gradient: Tensor, x: Tensor, gamma: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of the input (its dtype) and of gamma (float32)."""
    dims = _dims("npu_rms_norm_backward", x, gamma)
    scaled = wide(x) * rstd
    by_scaled = wide(gradient) * wide(gamma)
    by_x = rstd * (by_scaled - scaled * (by_scaled * scaled).mean(dims, keepdim=True))
    rows = list(range(x.dim() - gamma.dim()))
    by_gamma = wide(gradient) * scaled
    return by_x.to(x.dtype), (by_gamma.sum(rows) if rows else by_gamma).float()


@implements("npu_gemma_rms_norm", differentiable=False)
def gemma_rms_norm(x: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """`npu_rms_norm` with `1 + gamma` for gamma."""
    scaled, rstd = rms_scaled("npu_gemma_rms_norm", x, gamma, epsilon)
    return (scaled * (1 + wide(gamma))).to(x.dtype), rstd


@implements("npu_add_rms_norm", differentiable=False)
def add_rms_norm(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """RMS norm of `x1 + x2`; results: y, rstd, the sum."""
    added = x1 + x2
    scaled, rstd = rms_scaled("npu_add_rms_norm", added, gamma, epsilon)
    return (scaled * wide(gamma)).to(x1.dtype), rstd, added


@implements("npu_add_rms_norm_cast", differentiable=False)
def add_rms_norm_cast(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, ...]:
    """`npu_add_rms_norm` that gives y in float32 too; results: y in float32, y, rstd, the sum."""
    added = x1 + x2
    scaled, rstd = rms_scaled("npu_add_rms_norm_cast", added, gamma, epsilon)
    y = (scaled * wide(gamma)).float()
    return y, y.to(x1.dtype), rstd, added


@implements("npu_add_rms_norm_v2")
def add_rms_norm_v2(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> Tensor:
    """`npu_add_rms_norm` in place: `x1` becomes y, `x2` the sum; the result is rstd."""
    y, rstd, added = add_rms_norm(x1, x2, gamma, epsilon)
    x1.copy_(y)
    x2.copy_(added)
    return rstd


@implements("npu_add_rms_norm_v2_functional", differentiable=False)
def add_rms_norm_v2_functional(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, ...]:
    """The functional form of `npu_add_rms_norm_v2`; results: rstd, y, the sum."""
    y, rstd, added = add_rms_norm(x1, x2, gamma, epsilon)
    return rstd, y, added


def _layer(operator: str, x: Tensor, gamma: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the standardised input, its mean and rstd, all in float32."""
    dims = _dims(operator, x, gamma)
    wider = wide(x)
    mean = wider.mean(dims, keepdim=True)
    centred = wider - mean
    rstd = torch.rsqrt(centred.square().mean(dims, keepdim=True) + epsilon)
    return centred * rstd, mean, rstd


@implements("npu_add_layer_norm", outputs=(0, 3))
def add_layer_norm(
    x1: Tensor, x2: Tensor, gamma: Tensor, beta: Tensor, epsilon: float, additional_output: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Layer norm of `x1 + x2`; results: y, mean, rstd, and the sum, which is empty unless asked for."""
    require_dtype("npu_add_layer_norm", FLOATING, x1=x1, x2=x2, gamma=gamma, beta=beta)
    added = x1 + x2
    scaled, mean, rstd = _layer("npu_add_layer_norm", added, gamma, epsilon)
    y = (scaled * wide(gamma) + wide(beta)).to(added.dtype)
    return y, mean, rstd, added if additional_output else added.new_empty(0)


@implements("npu_add_layer_norm_backward", differentiable=False)
def add_layer_norm_backward(
    gradient: Tensor | None,
    x1: Tensor,
    x2: Tensor,
    rstd: Tensor,
    mean: Tensor,
    gamma: Tensor,
    by_sum: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x1, x2 (one and the same value), gamma and beta (float32)."""
    dims = _dims("npu_add_layer_norm_backward", x1, gamma)
    added = x1 + x2
    seed = torch.zeros_like(added) if gradient is None else gradient
    scaled = (wide(added) - mean) * rstd
    by_scaled = wide(seed) * wide(gamma)
    inner = by_scaled.mean(dims, keepdim=True) + scaled * (by_scaled * scaled).mean(dims, keepdim=True)
    by_x = rstd * (by_scaled - inner)
    if by_sum is not None and by_sum.numel():
        by_x = by_x + by_sum
    rows = list(range(added.dim() - gamma.dim()))
    by_gamma, by_beta = wide(seed) * scaled, wide(seed)
    if rows:
        by_gamma, by_beta = by_gamma.sum(rows), by_beta.sum(rows)
    return by_x.to(x1.dtype), by_x.to(x2.dtype), by_gamma.float(), by_beta.float()


@implements("npu_deep_norm", outputs=(2,))
def deep_norm(
    x: Tensor, gx: Tensor, beta: Tensor, gamma: Tensor, alpha: float, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Layer norm of `alpha * x + gx`; results: mean, rstd, y."""
    require_dtype("npu_deep_norm", FLOATING, x=x, gx=gx, beta=beta, gamma=gamma)
    scaled, mean, rstd = _layer("npu_deep_norm", alpha * wide(x) + wide(gx), gamma, epsilon)
    return mean, rstd, (scaled * wide(gamma) + wide(beta)).to(x.dtype)


@implements("npu_deep_norm_backward", differentiable=False)
def deep_norm_backward(
    gradient: Tensor, x: Tensor, gx: Tensor, gamma: Tensor, mean: Tensor, rstd: Tensor, alpha: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, gx, beta and gamma; the last two in float32."""
    added = alpha * wide(x) + wide(gx)
    _, by_sum, by_gamma, by_beta = add_layer_norm_backward(
        gradient, added, torch.zeros_like(added), rstd, mean, gamma, None
    )
    return (alpha * by_sum).to(x.dtype), by_sum.to(gx.dtype), by_beta, by_gamma


@implements("npu_layer_norm_eval", differentiable=False)
def layer_norm_eval(
    x: Tensor, normalized_shape: list[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Tensor:
    """`torch.nn.functional.layer_norm` for inference."""
    return torch.nn.functional.layer_norm(x, list(normalized_shape), weight, bias, eps)


def _group(
    x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the group norm, and the mean and rstd of each group, shape (N, groups), in float32."""
    rule = f"the number of channels must be a multiple of the {groups} groups"
    expect(x.dim() >= 2 and x.shape[1] % groups == 0, "npu_group_norm", rule, tuple(x.shape))
    grouped = wide(x).reshape(x.shape[0], groups, -1)
    mean = grouped.mean(-1, keepdim=True)
    centred = grouped - mean
    rstd = torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    result = (centred * rstd).reshape(x.shape)
    per_channel = (1, -1, *[1] * (x.dim() - 2))
    if weight is not None:
        result = result * wide(weight).reshape(per_channel)
    if bias is not None:
        result = result + wide(bias).reshape(per_channel)
    return result, mean.squeeze(-1), rstd.squeeze(-1)


@implements("npu_group_norm_silu", differentiable=False)
def group_norm_silu(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`silu(group_norm(x))`, mean and rstd of shape (N, group) in the dtype of the affine parameters."""
    result, mean, rstd = _group(x, group, weight, bias, eps)
    kind = x.dtype if weight is None or bias is None else weight.dtype
    return torch.nn.functional.silu(result).to(x.dtype), mean.to(kind), rstd.to(kind)


@implements("npu_group_norm_swish", outputs=(0,), backward="npu_group_norm_swish_grad")
def group_norm_swish(
    x: Tensor, num_groups: int, weight: Tensor, bias: Tensor, eps: float | None, swish_scale: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """`y * sigmoid(swish_scale * y)` of the group norm y; mean and rstd of shape (N, num_groups)."""
    result, mean, rstd = _group(x, num_groups, weight, bias, 1e-5 if eps is None else eps)
    swish = result * torch.sigmoid((1.0 if swish_scale is None else swish_scale) * result)
    return swish.to(x.dtype), mean.to(x.dtype), rstd.to(x.dtype)


@implements("npu_group_norm_swish_grad", differentiable=False)
def group_norm_swish_grad(
    gradient: Tensor,
    x: Tensor,
    num_groups: int,
    weight: Tensor,
    bias: Tensor,
    _mean: Tensor,
    rstd: Tensor,
    grad_input_mask: list[bool],
    swish_scale: float | None,
) -> tuple[Tensor | None, ...]:
    """Gradients of x, weight and bias, as far as the mask asks for them."""
    scale = 1.0 if swish_scale is None else swish_scale

    def forward(value: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        grouped = wide(value).reshape(value.shape[0], num_groups, -1)
        centred = grouped - grouped.mean(-1, keepdim=True)
        # NOTE: rstd carries the forward's epsilon, which this operator is not given.
        variance = centred.square().mean(-1, keepdim=True)
        epsilon = wide(rstd).unsqueeze(-1).pow(-2) - variance.detach()
        scaled = (centred * torch.rsqrt(variance + epsilon)).reshape(value.shape)
        per_channel = (1, -1, *[1] * (value.dim() - 2))
        result = scaled * wide(gamma).reshape(per_channel) + wide(beta).reshape(per_channel)
        return (result * torch.sigmoid(scale * result)).to(value.dtype)

    found = differentiate(forward, [x, weight, bias], [gradient])
    return tuple(value if wanted else None for value, wanted in zip(found, grad_input_mask, strict=True))
