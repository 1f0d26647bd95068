"""Backward operators of PyTorch's functions under the vendor's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from jumar.npu.ops.helpers.checks import wide
from jumar.npu.ops.mechanism.gradients import differentiate, gradient
from jumar.npu.ops.mechanism.implement import implements

Tensor = torch.Tensor
_MEAN = 1
"""at::Reduction::Mean."""
_REDUCTIONS = ("none", "mean", "sum")
functional = torch.nn.functional


def _like_self(_grad: Tensor, x: Tensor, *_: Any, **__: Any) -> Tensor:
    return torch.empty_like(x)


@implements("l1_loss_backward", differentiable=False, meta=_like_self)
def l1_loss_backward(grad: Tensor, x: Tensor, target: Tensor, reduction: int) -> Tensor:
    """The gradient of the input of `l1_loss`."""
    found = torch.sign(x - target) * grad
    return found / x.numel() if reduction == _MEAN else found


@implements("kl_div_backward", differentiable=False, meta=_like_self)
def kl_div_backward(grad: Tensor, x: Tensor, target: Tensor, reduction: int, *, log_target: bool) -> Tensor:
    """The gradient of the input of `kl_div`."""
    return _kl_div(grad, x, target, reduction, log_target)[0]


@implements("kl_div_target_backward", differentiable=False, meta=_like_self)
def kl_div_target_backward(grad: Tensor, x: Tensor, target: Tensor, reduction: int, *, log_target: bool) -> Tensor:
    """The gradient of the target of `kl_div`."""
    return _kl_div(grad, x, target, reduction, log_target)[1]


def _kl_div(grad: Tensor, x: Tensor, target: Tensor, reduction: int, log_target: bool) -> list[Tensor]:
    def loss(a: Tensor, b: Tensor) -> Tensor:
        value = b.exp() * (b - a) if log_target else torch.xlogy(b, b) - b * a
        return value.mean() if reduction == _MEAN else value.sum() if reduction else value

    return differentiate(loss, (x, target), (grad,))


@implements("npu_binary_cross_entropy_with_logits_backward", differentiable=False, meta=_like_self)
def binary_cross_entropy_with_logits_backward(
    grad: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: int
) -> Tensor:
    """The gradient of the input of `binary_cross_entropy_with_logits`; halves are rounded once."""
    labels = wide(target)
    weights, positive = (None if item is None else wide(item) for item in (weight, pos_weight))

    def loss(value: Tensor) -> Tensor:
        kind = _REDUCTIONS[reduction]
        return functional.binary_cross_entropy_with_logits(value, labels, weights, reduction=kind, pos_weight=positive)

    return gradient(loss, wide(x), wide(grad)).to(x.dtype)


@implements("npu_renorm_backward", differentiable=False, meta=_like_self)
def renorm_backward(grad: Tensor, x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The gradient of the input of `torch.renorm`."""
    return gradient(lambda value: torch.renorm(value, p, dim, maxnorm), x, grad)


@implements("stft_backward", differentiable=False, meta=_like_self)
def stft_backward(
    grad: Tensor,
    x: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Tensor | None,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None,
) -> Tensor:
    """The gradient of the input of `torch.stft` without centring, given as a complex number or as a pair."""
    complex_input = x.is_complex() or (window is not None and window.is_complex())
    as_complex = complex_input if return_complex is None else return_complex

    def transform(value: Tensor) -> Tensor:
        found = torch.stft(
            value, n_fft, hop_length, win_length, window, False, "reflect", normalized, onesided, return_complex=True
        )
        return found if as_complex else torch.view_as_real(found)

    return gradient(transform, x, grad)


@implements("fft_r2c_backward", differentiable=False)
def fft_r2c_backward(
    grad: Tensor, dim: Sequence[int], normalization: int, onesided: bool, last_dim_size: int
) -> Tensor:
    """The gradient, real, of the input of a transform of real numbers over `dim`."""
    if not onesided:
        return torch.ops.aten._fft_c2c(grad, dim, normalization, False).real.clone()  # type: ignore[no-any-return]
    last = dim[-1] % grad.dim()
    missing = last_dim_size - grad.shape[last]
    padding = [0, 0] * (grad.dim() - 1 - last) + [0, missing]
    full = torch.constant_pad_nd(grad, padding) if missing > 0 else grad
    return torch.ops.aten._fft_c2c(full, dim, normalization, False).real.clone()  # type: ignore[no-any-return]


@implements("fft_c2r_backward", differentiable=False)
def fft_c2r_backward(grad: Tensor, dim: Sequence[int], normalization: int) -> Tensor:
    """The gradient of the input of a transform to real numbers: terms that stand for two count twice."""
    found = torch.ops.aten._fft_r2c(grad, dim, normalization, True)
    last = dim[-1]
    doubled = grad.shape[last] - found.shape[last]
    if doubled > 0:
        twice = found.new_ones(found.shape[last])
        twice[1 : 1 + doubled] = 2
        shape = [1] * found.dim()
        shape[last] = -1
        found = found * twice.reshape(shape)
    return found  # type: ignore[no-any-return]


def _no_double(_a: Any, _b: Any, grad: Tensor, first: Tensor, second: Tensor, mask: Sequence[bool]) -> tuple[Any, ...]:
    return tuple(torch.empty_like(t) if m else None for t, m in zip((grad, first, second), mask, strict=True))


@implements("matmul_double_backward", differentiable=False, meta=_no_double)
def matmul_double_backward(
    by_first: Tensor | None,
    by_second: Tensor | None,
    grad_out: Tensor,
    first: Tensor,
    second: Tensor,
    mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """Gradients of `grad_out`, `self` and `other` of the backward of `torch.matmul`; None where not asked for."""

    def backward(grad: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(torch.matmul(a, b), (a, b), grad, create_graph=True)

    found = differentiate(backward, (grad_out, first, second), (by_first, by_second))
    return tuple(gradient if wanted else None for gradient, wanted in zip(found, mask, strict=True))
