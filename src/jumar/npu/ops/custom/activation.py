"""Activations and gated linear units.

Formulas: CANN's aclnn pages of FastGelu, GeGluV3, SwiGlu and the adapter's page of npu_clipped_swiglu.
"""

from __future__ import annotations

import torch

from jumar.npu.ops.helpers.checks import FLOATING, expect, require_dtype, wide
from jumar.npu.ops.mechanism.gradients import gradient as gradient_of
from jumar.npu.ops.mechanism.implement import Step, derivative, implements

Tensor = torch.Tensor
functional = torch.nn.functional

_FAST_GELU = 1.702
_GEGLU_APPROXIMATION = {0: "none", 1: "tanh"}


@implements("npu_silu")
def silu(x: Tensor) -> Tensor:
    """`x * sigmoid(x)`, any shape."""
    return functional.silu(x)


@implements("npu_silu_backward", differentiable=False)
def silu_backward(gradient: Tensor, x: Tensor, _result: Tensor) -> Tensor:
    """Gradient of `npu_silu`; the forward's result is taken as the vendor's operator takes it."""
    return gradient_of(silu, x, gradient)


@implements("npu_mish")
def mish(x: Tensor) -> Tensor:
    """`x * tanh(softplus(x))`, any shape."""
    return functional.mish(x)


@implements("npu_mish_backward", differentiable=False)
def mish_backward(gradient: Tensor, x: Tensor) -> Tensor:
    """Gradient of `npu_mish`."""
    return gradient_of(mish, x, gradient)


@implements("npu_fast_gelu", "fast_gelu", backward="npu_fast_gelu_backward")
def fast_gelu(x: Tensor) -> Tensor:
    """`x / (1 + exp(-1.702 |x|)) * exp(0.851 (x - |x|))`, which is `x * sigmoid(1.702 x)`."""
    wider = wide(x)
    return (wider * torch.sigmoid(_FAST_GELU * wider)).to(x.dtype)


@implements("npu_fast_gelu_backward", differentiable=False)
def fast_gelu_backward(gradient: Tensor, x: Tensor) -> Tensor:
    """Gradient of `npu_fast_gelu`."""
    return gradient_of(fast_gelu, x, gradient)


@implements("npu_gelu")
def gelu(x: Tensor, *, approximate: str) -> Tensor:
    """`torch.nn.functional.gelu`; `approximate` is `none` or `tanh`."""
    expect(approximate in ("none", "tanh"), "npu_gelu", "approximate must be 'none' or 'tanh'", approximate)
    return functional.gelu(x, approximate=approximate)


@implements("npu_gelu_backward", differentiable=False)
def gelu_backward(gradient: Tensor, x: Tensor, *, approximate: str) -> Tensor:
    """Gradient of `npu_gelu`."""
    return gradient_of(lambda value: gelu(value, approximate=approximate), x, gradient)


@implements("npu_gelu_mul", differentiable=False)
def gelu_mul(x: Tensor, *, approximate: str) -> Tensor:
    """`gelu(a) * b` of the halves of the last dimension."""
    a, b = _halves("npu_gelu_mul", x, -1)
    return (functional.gelu(wide(a), approximate=approximate) * b).to(x.dtype)


@implements("npu_geglu", outputs=(0,), backward="npu_geglu_grad")
def geglu(x: Tensor, dim: int, approximate: int, activate_left: bool) -> tuple[Tensor, Tensor]:
    """`gelu(left) * right` or, by default, `left * gelu(right)` of the halves along `dim`; and that gelu.

    `approximate` is 1 for the tanh form, 0 for erf. Results have half the size of `x` along `dim`.
    """
    expect(approximate in _GEGLU_APPROXIMATION, "npu_geglu", "approximate must be 0 or 1", approximate)
    left, right = _halves("npu_geglu", x, dim)
    active, other = (left, right) if activate_left else (right, left)
    activated = functional.gelu(wide(active), approximate=_GEGLU_APPROXIMATION[approximate])
    return (activated * other).to(x.dtype), activated.to(x.dtype)


@implements("npu_geglu_grad", differentiable=False)
def geglu_grad(gradient: Tensor, x: Tensor, _gelu: Tensor, dim: int, approximate: int, activate_left: bool) -> Tensor:
    """Gradient of `npu_geglu`'s first result."""
    return gradient_of(lambda value: geglu(value, dim, approximate, activate_left)[0], x, gradient)


@implements("npu_swiglu")
def swiglu(x: Tensor, dim: int) -> Tensor:
    """`silu(a) * b` of the halves of `x` along `dim`; computed in float32, given in the dtype of `x`."""
    require_dtype("npu_swiglu", FLOATING, input=x)
    a, b = _halves("npu_swiglu", x, dim)
    return (functional.silu(wide(a)) * b).to(x.dtype)


@implements("npu_swiglu_backward", differentiable=False)
def swiglu_backward(gradient: Tensor, x: Tensor, dim: int) -> Tensor:
    """Gradient of `npu_swiglu`."""
    return gradient_of(lambda value: swiglu(value, dim), x, gradient)


@implements("npu_clipped_swiglu", differentiable=False, meta=lambda x, dim=-1, **_: _half_shape(x, dim))
def clipped_swiglu(
    x: Tensor,
    *,
    group_index: Tensor | None,
    dim: int,
    alpha: float,
    limit: float,
    bias: float,
    interleaved: bool,
) -> Tensor:
    """`g * sigmoid(alpha g) * (l + bias)`, g clipped above and l on both sides by `limit`.

    The dimensions before `dim` are rows, the rest columns; g and l are the even and odd columns, or the
    halves when not `interleaved`. Rows beyond the sum of `group_index` are zero.
    """
    before = dim % x.dim()
    rows = x.flatten(0, before - 1) if before else x.unsqueeze(0)
    columns = wide(rows.flatten(1))
    glu, linear = (columns[:, ::2], columns[:, 1::2]) if interleaved else _halves("npu_clipped_swiglu", columns, -1)
    glu, linear = glu.clamp(max=limit), linear.clamp(-limit, limit)
    result = glu * torch.sigmoid(alpha * glu) * (linear + bias)
    if group_index is not None:
        result[int(group_index.sum()) :] = 0
    shape = list(x.shape)
    shape[before] //= 2
    return result.to(x.dtype).reshape(shape)


def _half_shape(x: Tensor, dim: int) -> Tensor:
    shape = list(x.shape)
    shape[dim] //= 2
    return x.new_empty(shape)


def _halves(operator: str, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    expect(-x.dim() <= dim < x.dim(), operator, f"dim must be in [{-x.dim()}, {x.dim() - 1}]", dim)
    expect(x.shape[dim] % 2 == 0, operator, f"dimension {dim} of the input must be even", x.shape[dim])
    a, b = x.chunk(2, dim)
    return a, b


@derivative("npu_silu", reads_results=True)
def _silu_derivative(step: Step) -> dict[str, Tensor]:
    operator = torch.ops.npu.npu_silu_backward
    return {"self": operator(step.gradients[0], step.arguments["self"], step.results[0])}
