"""Losses and the masked softmax of attention scores."""

from __future__ import annotations

import torch

from jumar.npu.ops.helpers.checks import FLOATING, expect, refuse, require_dtype, wide
from jumar.npu.ops.mechanism.gradients import gradient as gradient_of
from jumar.npu.ops.mechanism.implement import Step, derivative, implements, shared

Tensor = torch.Tensor
_MASKED = -10000.0
"""What the kernel writes in place of masked scores."""


@implements("npu_scaled_masked_softmax")
def scaled_masked_softmax(x: Tensor, mask: Tensor, scale: float, fixed_triu_mask: bool) -> Tensor:
    """Softmax over the last dimension of `x * scale`, with -10000 where the boolean mask is true.

    `x` is a 16- or 32-bit float, `mask` broadcasts to it.
    """
    operator = "npu_scaled_masked_softmax"
    require_dtype(operator, FLOATING, x=x)
    require_dtype(operator, (torch.bool,), mask=mask)
    expect(not fixed_triu_mask, operator, "fixed_triu_mask is reserved and must be False", fixed_triu_mask)
    return torch.softmax((wide(x) * scale).masked_fill(mask, _MASKED), -1).to(x.dtype)


@implements("npu_scaled_masked_softmax_backward", differentiable=False)
def scaled_masked_softmax_backward(
    gradient: Tensor, y: Tensor, mask: Tensor, scale: float, fixed_triu_mask: bool
) -> Tensor:
    """Gradient of `x` from the forward's result."""
    operator = "npu_scaled_masked_softmax_backward"
    expect(not fixed_triu_mask, operator, "fixed_triu_mask is reserved and must be False", fixed_triu_mask)
    probabilities, seed = wide(y), wide(gradient)
    by_scores = probabilities * (seed - (seed * probabilities).sum(-1, keepdim=True))
    return (by_scores.masked_fill(mask, 0) * scale).to(y.dtype)


@derivative("npu_scaled_masked_softmax", reads_results=True)
def _scaled_masked_softmax_derivative(step: Step) -> dict[str, Tensor]:
    found = shared(step, "npu_scaled_masked_softmax_backward", y_grad=step.gradients[0], y=step.results[0])
    return {"x": found}


@implements("npu_attn_softmax_")
def attn_softmax(x: Tensor) -> Tensor:
    """Softmax over the last dimension, in place."""
    return x.copy_(torch.softmax(wide(x), -1))


@implements("npu_attn_softmax_backward_")
def attn_softmax_backward(x: Tensor, gradient: Tensor, values: Tensor) -> Tensor:
    """Gradient of the scores of `softmax(scores) @ values`, in place of the probabilities `x`."""
    probabilities = wide(x)
    seed = wide(gradient) @ wide(values).transpose(-1, -2)
    return x.copy_(probabilities * (seed - (seed * probabilities).sum(-1, keepdim=True)))


@implements("npu_cross_entropy_loss", outputs=(0, 2))
def cross_entropy_loss(
    x: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    lse_square_scale_for_zloss: float,
    return_zloss: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Cross entropy of logits (N, C); results: loss, log-probabilities, and zeros for the z-loss and its sums.

    The loss is (N,) for the reduction none and (1,) for mean and sum, in the dtype of `x`. Only an
    `ignore_index` of 0 or more ignores anything.
    """
    operator = "npu_cross_entropy_loss"
    require_dtype(operator, FLOATING, input=x)
    expect(x.dim() == 2, operator, "input must have 2 dimensions", x.dim())
    expect(reduction in ("mean", "sum", "none"), operator, "reduction must be mean, sum or none", reduction)
    if lse_square_scale_for_zloss or return_zloss:
        refuse(operator, "the z-loss", "leave lse_square_scale_for_zloss and return_zloss at their defaults")
    logged = torch.log_softmax(wide(x), -1)
    loss = _entropy(logged, target, weight, reduction, ignore_index, label_smoothing)
    rest = torch.zeros(loss.shape, dtype=x.dtype, device=x.device)
    sums = torch.zeros(x.shape[:1], dtype=x.dtype, device=x.device)
    return loss.to(x.dtype), logged.to(x.dtype), rest, sums


def _entropy(
    logged: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int, smoothing: float
) -> Tensor:
    num_classes = logged.shape[-1]
    weights = torch.ones(num_classes, device=logged.device) if weight is None else weight.float()
    labels = target.long()
    own = weights.index_select(0, labels)
    if ignore_index >= 0:
        own = own * (labels != ignore_index)
        kept = (labels != ignore_index).to(logged.dtype)
    else:
        kept = torch.ones_like(own)
    each = -logged.gather(1, labels.unsqueeze(1)).squeeze(1) * own
    smooth = -(logged * weights).sum(-1) * kept
    if reduction == "none":
        return (1 - smoothing) * each + smooth * smoothing / num_classes
    total = (1 - smoothing) * each.sum() + smooth.sum() * smoothing / num_classes
    return (total / own.sum() if reduction == "mean" else total).reshape(1)


@implements("npu_cross_entropy_loss_backward", differentiable=False)
def cross_entropy_loss_backward(
    gradient: Tensor,
    log_prob: Tensor,
    target: Tensor,
    weight: Tensor | None,
    grad_zloss: Tensor | None,
    lse_for_zloss: Tensor | None,
    reduction: str,
    ignore_index: int,
    label_smoothing: float,
    lse_square_scale_for_zloss: float,
) -> Tensor:
    """Gradient of the logits from the log-probabilities of the forward."""
    del grad_zloss, lse_for_zloss
    if lse_square_scale_for_zloss:
        refuse("npu_cross_entropy_loss_backward", "the z-loss", "leave lse_square_scale_for_zloss at 0")

    def forward(logits: Tensor) -> Tensor:
        # NOTE: the softmax of log-probabilities is the softmax of the logits they came from.
        logged = torch.log_softmax(wide(logits), -1)
        return _entropy(logged, target, weight, reduction, ignore_index, label_smoothing).to(logits.dtype)

    return gradient_of(forward, log_prob, gradient)


@implements("npu_fused_cross_entropy_loss_with_max_sum", differentiable=False)
def fused_loss_with_max_sum(
    logits_max: Tensor,
    sum_exp_logits: Tensor,
    predicted_logits: Tensor,
    *,
    label_smoothing: float | None,
    input: Tensor | None,
    weight: Tensor | None,
    vocab_parallel_logits: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    """Loss (n,) of a vocabulary that is spread over devices, and softmax (n, vocabulary), float32; None without logits.

    log(sum_exp_logits) - predicted_logits, and exp(logits - logits_max) / sum_exp_logits. Source: the vendor's page.
    """
    operator = "npu_fused_cross_entropy_loss_with_max_sum"
    expect(not label_smoothing, operator, "label_smoothing must be 0", label_smoothing)
    expect(input is None and weight is None, operator, "input and weight must be None", "tensors")
    loss = sum_exp_logits.log() - predicted_logits
    if vocab_parallel_logits is None:
        return loss, None
    return loss, _softmax_of(vocab_parallel_logits, logits_max, sum_exp_logits)


def _softmax_of(logits: Tensor, greatest: Tensor, total: Tensor) -> Tensor:
    return (logits.float() - greatest.unsqueeze(-1)).exp() / total.unsqueeze(-1)


@implements("npu_fused_linear_cross_entropy_loss_with_max_sum_backward", differentiable=False)
def fused_loss_with_max_sum_backward(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    target_mask: Tensor,
    masked_target: Tensor,
    label_smoothing: float,
    logits_max: Tensor | None,
    sum_exp_logits: Tensor | None,
    softmax: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Gradients of x (n, hidden) and weight (vocabulary, hidden) of the loss, from the softmax, or from its parts.

    `target_mask` holds one bit a row, the first row in the lowest one: set where the target is another device's.
    Source: the vendor's page.
    """
    operator = "npu_fused_linear_cross_entropy_loss_with_max_sum_backward"
    expect(not label_smoothing, operator, "label_smoothing must be 0", label_smoothing)
    if softmax is None:
        given = logits_max is not None and sum_exp_logits is not None
        expect(given, operator, "without softmax, logits_max and sum_exp_logits must be given", "None")
        assert logits_max is not None
        assert sum_exp_logits is not None
        softmax = _softmax_of(x.float() @ weight.float().T, logits_max, sum_exp_logits)
    num = x.shape[0]
    bits = torch.arange(8, device=x.device, dtype=torch.uint8)
    masked = (target_mask.unsqueeze(-1) >> bits & 1).reshape(-1)[:num]
    rows = torch.arange(num, device=x.device)
    by_logits = softmax.index_put((rows, masked_target.long()), masked.float() - 1, accumulate=True)
    by_logits = by_logits * gradient.unsqueeze(-1)
    return (by_logits @ weight.float()).to(x.dtype), (by_logits.T @ x.float()).to(weight.dtype)
