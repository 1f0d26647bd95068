"""Masked fills and normalisations, the softmax of window attention, the softmax loss, packed signs."""

from __future__ import annotations

import torch

from jumar.npu.ops.custom.dropout import pack_bits, unpack_bits
from jumar.npu.ops.helpers.checks import expect, require_dtype, wide
from jumar.npu.ops.mechanism.implement import Step, derivative, implements

Tensor = torch.Tensor


@implements("npu_masked_fill_range", differentiable=False)
def masked_fill_range(x: Tensor, start: Tensor, end: Tensor, value: Tensor, axis: int) -> Tensor:
    """x with ranges along `axis` filled: range (i, j) from start[i, j] before end[i, j] gets value[i].

    start and end are (num, n). j is the element of the first dimension whose range it is, when the range is
    along the last of several; along another dimension the range is of every element. A later i wins.
    """
    name = "npu_masked_fill_range"
    expect(-x.dim() <= axis < x.dim(), name, f"axis must be from {-x.dim()} to {x.dim() - 1}", axis)
    shapes = f"{tuple(start.shape)} and {tuple(end.shape)}"
    expect(start.dim() == 2 and start.shape == end.shape, name, "start and end must be of one shape (num, n)", shapes)
    expect(x.dtype == value.dtype, name, f"value must be {x.dtype}, as the tensor", value.dtype)
    axis %= x.dim()
    places = torch.arange(x.shape[axis], device=x.device)
    inside = (places >= start.unsqueeze(-1)) & (places < end.unsqueeze(-1))
    of_rows = x.dim() > 1 and axis == x.dim() - 1
    for ranges, fill in zip(inside, value, strict=True):
        if of_rows:
            rows = ranges.shape[0]
            shape = (rows, *(1 for _ in range(x.dim() - 2)), x.shape[axis])
            x = torch.cat([torch.where(ranges.reshape(shape), fill, x[:rows]), x[rows:]])
        else:
            shape = tuple(x.shape[axis] if dim == axis else 1 for dim in range(x.dim()))
            x = torch.where(ranges.any(0).reshape(shape), fill, x)
    return x


@implements("npu_normalize_batch", differentiable=False)
def normalize_batch(x: Tensor, seq_len: Tensor, normalize_type: int) -> Tensor:
    """x (n, c, d) less its mean, divided by its deviation + 1e-5, over the first seq_len[i] of each d.

    By channel with normalize_type 0, over all channels with 1. Deviations are those of a sample.
    """
    name = "npu_normalize_batch"
    expect(x.dim() == 3, name, "the tensor must have 3 dimensions", x.dim())
    expect(seq_len.shape == x.shape[:1], name, "seq_len must have one number a batch", tuple(seq_len.shape))
    expect(normalize_type in (0, 1), name, "normalize_type must be 0 or 1", normalize_type)
    counted = (torch.arange(x.shape[2], device=x.device) < seq_len.view(-1, 1, 1)).expand(x.shape)
    dims = (2,) if normalize_type == 0 else (1, 2)
    num = counted.sum(dims, keepdim=True)
    mean = (x * counted).sum(dims, keepdim=True) / num
    variance = (((x - mean) * counted) ** 2).sum(dims, keepdim=True) / (num - 1)
    return (x - mean) / (variance.sqrt() + 1e-5)


@implements("npu_masked_softmax_with_rel_pos_bias", differentiable=False)
def masked_softmax_with_rel_pos_bias(
    x: Tensor, atten_mask: Tensor | None, bias: Tensor, scale_value: float, _inner_precision_mode: int
) -> Tensor:
    """softmax(x * scale + mask + bias) of window attention.

    x (b * w, n, s, t) or (b, w, n, s, t); mask (w, s, t), (w, 1, s, t) or (1, w, 1, s, t); bias (n, s, t) with
    leading ones or without.
    """
    name = "npu_masked_softmax_with_rel_pos_bias"
    expect(x.dim() in (4, 5), name, "x must have 4 or 5 dimensions", x.dim())
    windows = 1 if atten_mask is None else atten_mask.numel() // (x.shape[-1] * x.shape[-2])
    num = x.shape[0] if x.dim() == 4 else x.shape[0] * x.shape[1]
    expect(windows > 0 and num % windows == 0, name, f"{num} windows must be a multiple of the mask's", windows)
    scores = wide(x).reshape(-1, windows, *x.shape[-3:]) * scale_value + wide(bias).reshape(x.shape[-3:])
    if atten_mask is not None:
        scores = scores + wide(atten_mask).reshape(windows, 1, *x.shape[-2:])
    return torch.softmax(scores, -1).reshape(x.shape).to(x.dtype)


@implements("npu_softmax_cross_entropy_with_logits")
def softmax_cross_entropy(x: Tensor, labels: Tensor) -> Tensor:
    """-sum(labels * log_softmax(x)) of each row: x and labels (n, classes), the result (n,)."""
    shapes = f"{tuple(x.shape)} and {tuple(labels.shape)}"
    rule = "features and labels must have one shape"
    expect(x.shape == labels.shape, "npu_softmax_cross_entropy_with_logits", rule, shapes)
    return -(wide(labels) * torch.log_softmax(wide(x), -1)).sum(-1).to(x.dtype)


@implements("npu_softmax_cross_entropy_with_logits_backward", differentiable=False)
def softmax_cross_entropy_backward(grad: Tensor, x: Tensor, labels: Tensor) -> Tensor:
    """(softmax - labels) * grad, which is the gradient of x for labels that sum to 1."""
    return (torch.softmax(wide(x), -1) - wide(labels)).to(x.dtype) * grad.unsqueeze(-1)


@derivative("npu_softmax_cross_entropy_with_logits")
def _softmax_cross_entropy_gradient(step: Step) -> dict[str, Tensor]:
    x, labels = step.arguments.values()
    operator = torch.ops.npu.npu_softmax_cross_entropy_with_logits_backward
    return {"self": operator(step.gradients[0], x, labels)}


@implements("npu_sign_bits_pack", differentiable=False)
def sign_bits_pack(x: Tensor, size: int) -> Tensor:
    """One bit for each number, (size, bytes / size), uint8: 0 for negative ones, the lowest bit first.

    What fills the last byte is negative.
    """
    name = "npu_sign_bits_pack"
    require_dtype(name, (torch.float16, torch.float32), self=x)
    num_bytes = -(-x.numel() // 8)
    expect(size > 0 and num_bytes % size == 0, name, f"size must divide the {num_bytes} bytes", size)
    bits = torch.zeros(num_bytes * 8, dtype=torch.bool, device=x.device)
    bits = torch.cat([x.flatten() >= 0, bits[x.numel() :]])
    return pack_bits(bits).reshape(size, num_bytes // size)


@implements("npu_sign_bits_unpack", differentiable=False)
def sign_bits_unpack(x: Tensor, size: int, dtype: torch.dtype) -> Tensor:
    """1 for each set bit and -1 for others, (size, bits / size): the inverse of `npu_sign_bits_pack`."""
    name = "npu_sign_bits_unpack"
    require_dtype(name, (torch.uint8,), input=x)
    expect(dtype in (torch.float16, torch.float32), name, "dtype must be float16 or float32", dtype)
    num = x.numel() * 8
    expect(size > 0 and num % size == 0, name, f"size must divide the {num} bits", size)
    return (unpack_bits(x, num).to(dtype) * 2 - 1).reshape(size, num // size)
