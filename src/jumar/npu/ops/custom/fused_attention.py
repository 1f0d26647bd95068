"""The fused attention of BERT models and the fused multi-head attention layer, with their backward.

Masks are added to the scores. A dropout mask has a byte for each element here, a bit in multi-head attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from jumar.npu.ops.custom.dropout import keep, random_bits, random_bytes, unpack_bits
from jumar.npu.ops.helpers.checks import expect, refuse
from jumar.npu.ops.mechanism.composite import call, composite
from jumar.npu.ops.mechanism.implement import Step, derivative, implements, shared

Tensor = torch.Tensor
_ALIGNED_TO = 16


def _heads_last(x: Tensor) -> Tensor:
    """Return (b * s, n * d) of (b, n, s, d)."""
    b, n, s, d = x.shape
    return x.permute(0, 2, 1, 3).reshape(b * s, n * d)


def _heads_first(x: Tensor, batch: int, heads: int) -> Tensor:
    """Return (b, n, s, d) of (b * s, n * d)."""
    return x.reshape(batch, x.shape[0] // batch, heads, -1).permute(0, 2, 1, 3)


def _by_softmax(grad: Tensor, softmax: Tensor) -> Tensor:
    return softmax * (grad - (grad * softmax).sum(-1, keepdim=True))


def _untransposed(name: str, *flags: bool) -> None:
    if any(flags):
        refuse(name, "its transpose flags", "what they do is not documented; transpose the tensors first")


@implements("npu_fused_attention_score_fwd", outputs=(0,), backward="npu_fused_attention_score_backward")
def attention_score_forward(
    query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor, scale: float, keep_prob: float, *flags: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Context (b * s, n * d), softmax (b, n, s, s) and the byte mask of the dropout, flat.

    query, key and value are (b, n, s, d). softmax(query @ key.T * scale + mask), dropout, @ value.
    """
    _untransposed("npu_fused_attention_score_fwd", *flags)
    scores = query.float() @ key.float().transpose(-1, -2) * scale + attention_mask.float()
    softmax = torch.softmax(scores, -1)
    mask = random_bytes(softmax, 1 - keep_prob)
    context = keep(softmax, mask.bool(), 1 - keep_prob) @ value.float()
    return _heads_last(context).to(query.dtype), softmax.to(query.dtype), mask.flatten()


@composite("npu_fused_attention_score")
def attention_score(*args: Any) -> Tensor:
    """The context of `npu_fused_attention_score_fwd`."""
    return call("npu_fused_attention_score_fwd", *args)[0]  # type: ignore[no-any-return]


@implements("npu_fused_attention_score_backward", differentiable=False)
def attention_score_backward(
    grad: Tensor,
    softmax: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    scale: float,
    keep_prob: float,
    *flags: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value, shaped as they are, from the softmax and the mask saved."""
    _untransposed("npu_fused_attention_score_backward", *flags)
    by_context = _heads_first(grad.float(), query.shape[0], query.shape[1])
    kept, p = mask.reshape(softmax.shape).bool(), 1 - keep_prob
    weights = softmax.float()
    by_value = keep(weights, kept, p).transpose(-1, -2) @ by_context
    by_scores = _by_softmax(keep(by_context @ value.float().transpose(-1, -2), kept, p), weights) * scale
    found = by_scores @ key.float(), by_scores.transpose(-1, -2) @ query.float(), by_value
    return found[0].to(query.dtype), found[1].to(key.dtype), found[2].to(value.dtype)


@implements("npu_fused_attention_score_grad", differentiable=False)
def attention_score_grad(*args: Any) -> tuple[Tensor, ...]:
    """As `npu_fused_attention_score_backward`, with the gradients of shape (b * s, n * d)."""
    return tuple(_heads_last(item) for item in attention_score_backward(*args))


@derivative("npu_fused_attention_score_fwd", reads_results=True)
def _attention_score_gradients(step: Step) -> dict[str, Tensor]:
    _, softmax, mask = step.results
    name = "npu_fused_attention_score_backward"
    found = shared(step, name, grad_output=step.gradients[0], softmax_output=softmax, mask=mask)
    return dict(zip(("query_layer", "key_layer", "value_layer"), found, strict=True))


@implements("npu_fused_attention_layernorm_qkv_fwd", differentiable=False)
def layernorm_qkv(
    x: Tensor,
    kernel_query: Tensor,
    kernel_key: Tensor,
    kernel_value: Tensor,
    gamma: Tensor,
    beta: Tensor,
    bias_query: Tensor | None,
    bias_key: Tensor | None,
    bias_value: Tensor | None,
    seq_len: int,
    num_heads: int,
    eps: float,
) -> list[Tensor]:
    """Layer normalisation of x (b * s, c) and three products: norm, query, key, value (b, n, s, d), mean, variance.

    Kernels are (c, c), inputs first. Mean and variance are (b * s,); the backward is `npu_layernorm_grad`, which
    takes this variance, and `npu_fused_attention_qkv_grad`.
    """
    name = "npu_fused_attention_layernorm_qkv_fwd"
    ok = seq_len > 0 and num_heads > 0 and x.shape[0] % seq_len == 0 and x.shape[1] % num_heads == 0
    expect(ok, name, f"x must be a multiple of seq_len {seq_len} by num_heads {num_heads}", tuple(x.shape))
    wide = x.float()
    variance, mean = torch.var_mean(wide, -1, correction=0)
    norm = (wide - mean.unsqueeze(1)) * torch.rsqrt(variance.unsqueeze(1) + eps) * gamma.float() + beta.float()
    norm = norm.to(x.dtype)
    batch = x.shape[0] // seq_len
    layers = []
    for kernel, bias in ((kernel_query, bias_query), (kernel_key, bias_key), (kernel_value, bias_value)):
        product = norm @ kernel
        layers.append(_heads_first(product if bias is None else product + bias, batch, num_heads))
    return [norm, *layers, mean.to(kernel_query.dtype), variance.to(kernel_query.dtype)]


@implements("npu_fused_attention_qkv_grad", differentiable=False)
def qkv_grad(
    grad_query: Tensor,
    grad_key: Tensor,
    grad_value: Tensor,
    query_kernel: Tensor,
    key_kernel: Tensor,
    value_kernel: Tensor,
    hidden_states: Tensor,
    grad_ln: Tensor,
) -> list[Tensor]:
    """Gradients of the three products' input (plus `grad_ln`), of the kernels (c, c) and of the biases (c,).

    The gradients given are (b * s, c), kernels are (c, c), inputs first.
    """
    grads = (grad_query, grad_key, grad_value)
    kernels = (query_kernel, key_kernel, value_kernel)
    by_hidden = grad_ln
    for grad, kernel in zip(grads, kernels, strict=True):
        by_hidden = by_hidden + grad @ kernel.t()
    return [by_hidden, *(hidden_states.t() @ grad for grad in grads), *(grad.sum(0) for grad in grads)]


@implements("npu_layernorm_grad", differentiable=False)
def layernorm_grad(
    grad: Tensor,
    x: Tensor,
    normalized_shape: Sequence[int],
    mean: Tensor,
    variance: Tensor,
    weight: Tensor | None,
    _bias: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of input, weight and bias of a layer normalisation.

    The argument the vendor calls `rstd` is the variance, as its forward operators of this generation return it;
    1e-5 is added to it.
    """
    dims = tuple(range(x.dim() - len(normalized_shape), x.dim()))
    rows = tuple(range(dims[0]))
    shape = (*x.shape[: dims[0]], *(1 for _ in dims))
    rstd = torch.rsqrt(variance.float().reshape(shape) + 1e-5)
    normal = (x.float() - mean.float().reshape(shape)) * rstd
    seed = grad.float()
    by_normal = seed if weight is None else seed * weight.float()
    by_x = by_normal - by_normal.mean(dims, keepdim=True) - normal * (by_normal * normal).mean(dims, keepdim=True)
    by_weight, by_bias = (seed * normal).sum(rows) if rows else seed * normal, seed.sum(rows) if rows else seed
    kind = x.dtype if weight is None else weight.dtype
    return (by_x * rstd).to(x.dtype), by_weight.to(kind), by_bias.to(kind)


def _check_layer(name: str, x: Tensor, **sizes: int) -> None:
    for key, size in sizes.items():
        expect(size > 0 and size % _ALIGNED_TO == 0, name, f"{key} must be a multiple of 16", size)
    expect(x.dim() == 2, name, "query must have 2 dimensions", x.dim())


@implements("npu_multi_head_attention", outputs=(0,))
def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_weight: Tensor,
    key_weight: Tensor,
    value_weight: Tensor,
    attn_mask: Tensor,
    out_proj_weight: Tensor,
    query_bias: Tensor | None,
    key_bias: Tensor | None,
    value_bias: Tensor | None,
    out_proj_bias: Tensor | None,
    dropout_mask: Tensor | None,
    num_heads: int,
    head_dim: int,
    src_len: int,
    tgt_len: int,
    dropout_prob: float,
    softmax_use_float: bool,
) -> tuple[Tensor, ...]:
    """Result, bit mask, query, key and value by head, softmax, softmax after dropout, and context.

    query (b * tgt_len, c), key and value (b * src_len, c); weights (c, c), outputs first; attn_mask is added to
    the scores (b, n, tgt_len, src_len). The query by head is scaled by head_dim ** -0.5.
    """
    name = "npu_multi_head_attention"
    _check_layer(name, query, attn_head_num=num_heads, attn_dim_per_head=head_dim, src_len=src_len, tgt_len=tgt_len)
    linear = torch.nn.functional.linear
    batch = query.shape[0] // tgt_len
    by_head = [
        _heads_first(linear(x, weight, bias), batch, num_heads).contiguous()
        for x, weight, bias in (
            (query, query_weight, query_bias), (key, key_weight, key_bias), (value, value_weight, value_bias)
        )
    ]  # fmt: skip
    q, k, v = by_head[0] * head_dim**-0.5, by_head[1], by_head[2]
    scores = q @ k.transpose(-1, -2) + attn_mask
    softmax = torch.softmax(scores.float() if softmax_use_float else scores, -1)
    mask = _layer_mask(name, softmax, dropout_prob, dropout_mask)
    kept = unpack_bits(mask, softmax.numel()).reshape(softmax.shape)
    weights = keep(softmax.to(query.dtype), kept, dropout_prob)
    context = _heads_last(weights @ v)
    return linear(context, out_proj_weight, out_proj_bias), mask, q, k, v, softmax, weights, context


def _layer_mask(name: str, softmax: Tensor, p: float, given: Tensor | None) -> Tensor:
    """Return the bit mask: nothing is dropped without a probability, and a mask of bytes that is given is used."""
    num_bytes = softmax.numel() // 8
    if p == 0:
        return torch.full((num_bytes,), 255, dtype=torch.uint8, device=softmax.device)
    if given is None:
        return random_bits(softmax.numel(), p, softmax.device)[:num_bytes]
    expect(given.dtype == torch.uint8, name, "dropout_mask must be uint8 when something is dropped", given.dtype)
    expect(given.numel() >= num_bytes, name, f"dropout_mask must have {num_bytes} bytes", given.numel())
    return given.flatten()[:num_bytes].clone()


@implements("npu_multi_head_attention_backward", differentiable=False, by_name=True)
def multi_head_attention_backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_weight: Tensor,
    key_weight: Tensor,
    value_weight: Tensor,
    out_proj_weight: Tensor,
    query_res: Tensor,
    key_res: Tensor,
    value_res: Tensor,
    attn_scores: Tensor,
    attn_res: Tensor,
    context: Tensor,
    y_grad: Tensor,
    dropout_mask: Tensor,
    attn_head_num: int,
    attn_dim_per_head: int,
    dropout_prob: float,
) -> tuple[Tensor, ...]:
    """Gradients of the four weights, of query, key and value, and of the four biases, (1, c) each."""
    by_context = _heads_first(y_grad @ out_proj_weight, query_res.shape[0], attn_head_num)
    kept = unpack_bits(dropout_mask, attn_scores.numel()).reshape(attn_scores.shape)
    by_weights = keep(by_context @ value_res.transpose(-1, -2), kept, dropout_prob)
    by_scores = _by_softmax(by_weights.to(attn_scores.dtype), attn_scores).to(query.dtype)
    by_query = _heads_last(by_scores @ key_res) * attn_dim_per_head**-0.5
    by_key = _heads_last(by_scores.transpose(-1, -2) @ query_res)
    by_value = _heads_last(attn_res.transpose(-1, -2) @ by_context)
    parts = ((by_query, query, query_weight), (by_key, key, key_weight), (by_value, value, value_weight))
    by_weight = [by.t() @ x for by, x, _ in parts]
    by_inputs = [by @ weight for by, _, weight in parts]
    biases = [by.sum(0, keepdim=True) for by in (by_query, by_key, by_value, y_grad)]
    return *by_weight, y_grad.t() @ context, *by_inputs, *biases


@derivative("npu_multi_head_attention", reads_results=True)
def _layer_gradients(step: Step) -> dict[str, Tensor]:
    values, (_, mask, *results) = step.arguments, step.results
    inputs = ("query", "key", "value")
    weights = (*(f"{name}_weight" for name in inputs), "out_proj_weight")
    biases = (*(f"{name}_bias" for name in inputs), "out_proj_bias")
    names = (*(f"{name}_res" for name in inputs), "attn_scores", "attn_res", "context")
    saved = {**dict(zip(names, results, strict=True)), "y_grad": step.gradients[0], "dropout_mask": mask}
    found = shared(step, "npu_multi_head_attention_backward", **saved)
    by_name = dict(zip((*weights, *inputs, *biases), found, strict=True))
    return {name: by.reshape(values[name].shape) for name, by in by_name.items() if name in step.needs}
