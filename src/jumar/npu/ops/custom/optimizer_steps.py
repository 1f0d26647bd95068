"""Fused optimizer steps: they write the parameter and its two moments, given as `out=(var, m, v)`.

The forms without `out` raise, as the vendor's do. Formulas: the reference implementations of TensorFlow's
ApplyAdam and of Hugging Face's BertAdam, and the adapter's page of npu_apply_adam_w.
"""

from __future__ import annotations

import math

import torch

from jumar.npu.ops.helpers.checks import expect, refuse
from jumar.npu.ops.mechanism.implement import implements

Tensor = torch.Tensor
Moments = tuple[Tensor, Tensor, Tensor]


@implements("npu_apply_adam.out", reads_out=True)
def apply_adam(
    beta1_power: float,
    beta2_power: float,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    grad: Tensor,
    _use_locking: bool | None,
    use_nesterov: bool | None,
    *,
    var: Tensor,
    m: Tensor,
    v: Tensor,
) -> Moments:
    """One step of Adam, whose bias corrections come as powers of the betas."""
    first, second = _moments(m, v, grad, beta1, beta2)
    rate = lr * math.sqrt(max(1 - beta2_power, 0.0)) / (1 - beta1_power) if beta1_power != 1 else math.nan
    numerator = first * beta1 + (1 - beta1) * grad if use_nesterov else first
    return var - rate * numerator / (second.sqrt() + epsilon), first, second


def _moments(m: Tensor, v: Tensor, grad: Tensor, beta1: float, beta2: float) -> tuple[Tensor, Tensor]:
    return m * beta1 + (1 - beta1) * grad, v * beta2 + (1 - beta2) * grad * grad


@implements("npu_apply_adam_w.out", reads_out=True)
def apply_adam_w(
    beta1_power: float,
    beta2_power: float,
    lr: float,
    weight_decay: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    grad: Tensor,
    max_grad_norm: Tensor | None,
    amsgrad: bool | None,
    maximize: bool | None,
    *,
    var: Tensor,
    m: Tensor,
    v: Tensor,
) -> Moments:
    """One step of AdamW; `max_grad_norm` holds the greatest second moments when `amsgrad` is set."""
    operator = "npu_apply_adam_w"
    expect(not amsgrad or max_grad_norm is not None, operator, "amsgrad needs max_grad_norm", "None")
    step = -grad if maximize else grad
    first, second = _moments(m, v, step, beta1, beta2)
    largest = torch.maximum(max_grad_norm, second) if amsgrad and max_grad_norm is not None else second
    denominator = (largest / (1 - beta2_power * beta2)).sqrt() + epsilon
    updated = var * (1 - lr * weight_decay) - lr * first / (1 - beta1_power * beta1) / denominator
    return updated, first, second


@implements("npu_bert_apply_adam.out", reads_out=True)
def bert_apply_adam(
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    grad: Tensor,
    max_grad_norm: float,
    _global_grad_norm: float,
    weight_decay: float,
    step_size: float | None,
    adam_mode: int,
    *,
    var: Tensor,
    m: Tensor,
    v: Tensor,
) -> Moments:
    """One step of BertAdam: no bias correction, and weight decay beside the gradient."""
    operator = "npu_bert_apply_adam"
    if max_grad_norm > 0:
        refuse(operator, "clipping by max_grad_norm", "clip the gradients before and pass -1")
    if adam_mode or step_size is not None:
        refuse(operator, "the mode mbart_adam", "use adam_mode 0 without step_size")
    first, second = _moments(m, v, grad, beta1, beta2)
    update = first / (second.sqrt() + epsilon) + weight_decay * var
    return var - lr * update, first, second


@implements("npu_apply_adam", "npu_apply_adam_w", "npu_bert_apply_adam", differentiable=False)
def without_out(*_: object, **__: object) -> Moments:
    """Raise RuntimeError: the vendor declares these overloads and implements none of them."""
    raise RuntimeError("The fused Adam steps are not implemented for Tensor: give out=(var, m, v).")
