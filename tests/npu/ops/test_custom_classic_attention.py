"""The fused attention of BERT and the multi-head attention layer against their parts."""

from __future__ import annotations

import pytest
import torch
from custom_reference import leaf, on_npu, same

from jumar.device import DevicePlan, activate
from jumar.npu import listen

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))
npu = torch.ops.npu
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
B, N, S, D = 2, 3, 4, 5


def context_of(softmax, value):
    return (softmax @ value).permute(0, 2, 1, 3).reshape(B * S, N * D)


def bert(query, key, value, mask, scale):
    return context_of(torch.softmax(query @ key.transpose(-1, -2) * scale + mask, -1), value)


def layers():
    return [leaf(B, N, S, D) for _ in range(3)]


@pytest.mark.parametrize("name", ["npu_fused_attention_score", "npu_fused_attention_score_fwd"])
def test_attention_without_dropout_and_its_gradients(name):
    mask = torch.randn(B, 1, S, S)
    same(
        lambda *t: getattr(npu, name)(*t, mask.npu(), 0.3, 1.0),
        lambda *t: bert(*t, mask, 0.3),
        *layers(), kept=None if name == "npu_fused_attention_score" else (0,), **CLOSE,
    )  # fmt: skip


def test_the_forward_returns_what_the_backward_needs():
    query, key, value = layers()
    there = [on_npu(item) for item in (query, key, value)]
    context, softmax, mask = npu.npu_fused_attention_score_fwd(*there, torch.zeros(B, 1, S, S).npu(), 0.5, 0.6)
    assert (mask.shape, mask.dtype) == ((B * N * S * S,), torch.uint8)
    kept = mask.cpu().reshape(B, N, S, S) / 0.6
    weights = torch.softmax(query @ key.transpose(-1, -2) * 0.5, -1)
    torch.testing.assert_close(softmax.cpu(), weights.detach())
    expected = context_of(weights * kept, value)
    torch.testing.assert_close(context.cpu(), expected.detach())
    seed = torch.randn(B * S, N * D)
    wanted = torch.autograd.grad(expected, (query, key, value), seed)
    found = torch.autograd.grad(context, there, seed.npu())
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, **CLOSE)
    fixed = [item.detach() for item in there]
    flat = npu.npu_fused_attention_score_grad(seed.npu(), softmax.detach(), *fixed, mask, 0.5, 0.6)
    for mine, theirs in zip(flat, wanted, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs.permute(0, 2, 1, 3).reshape(B * S, N * D), **CLOSE)


def test_composed_attention_trains_with_the_mask_it_drew():
    query, key, value = (on_npu(item) for item in layers())
    torch.manual_seed(5)
    context = npu.npu_fused_attention_score(query, key, value, torch.zeros(B, 1, S, S).npu(), 0.5, 0.5)
    (context * context.detach()).sum().backward()
    torch.testing.assert_close((value.grad * value.detach()).sum().cpu(), (context**2).sum().detach().cpu(), **CLOSE)


def test_composed_attention_runs_as_its_forward_operator():
    given = [on_npu(item) for item in layers()]
    mask, seen = torch.zeros(B, 1, S, S).npu(), []
    with listen(lambda event: seen.append(event.operator)):
        npu.npu_fused_attention_score(*given, mask, 0.5, 1.0)
    assert seen == ["npu::npu_fused_attention_score_fwd"]
    with torch.inference_mode():
        npu.npu_fused_attention_score(*given, mask, 0.5, 1.0)


def test_transpose_flags_are_refused():
    with pytest.raises(NotImplementedError, match="transpose the tensors first"):
        npu.npu_fused_attention_score(*map(on_npu, layers()), torch.zeros(B, 1, S, S).npu(), 0.5, 1.0, True)


def test_layer_normalisation_and_three_products_with_their_backward():
    c = N * D
    x, gamma, beta = leaf(B * S, c), leaf(c), leaf(c)
    kernels, biases = [leaf(c, c) for _ in range(3)], [leaf(c) for _ in range(3)]
    norm = torch.nn.functional.layer_norm(x, (c,), gamma, beta, 1e-5)
    by_head = [(norm @ k + b).reshape(B, S, N, D).permute(0, 2, 1, 3) for k, b in zip(kernels, biases, strict=True)]
    there = [item.detach().npu() for item in (x, *kernels, gamma, beta, *biases)]
    found = npu.npu_fused_attention_layernorm_qkv_fwd(*there, S, N, 1e-5)
    mean, variance = x.mean(-1), x.var(-1, correction=0)
    for mine, theirs in zip(found, [norm, *by_head, mean, variance], strict=True):
        torch.testing.assert_close(mine.cpu(), theirs.detach(), **CLOSE)
    seeds, by_norm = [torch.randn_like(item) for item in by_head], torch.randn_like(norm)
    wanted = torch.autograd.grad((*by_head, norm), (x, *kernels, *biases, gamma, beta), (*seeds, by_norm))
    flat = [seed.permute(0, 2, 1, 3).reshape(B * S, c).npu() for seed in seeds]
    by_hidden, *parameters = npu.npu_fused_attention_qkv_grad(*flat, *there[1:4], found[0], by_norm.npu())
    ended = npu.npu_layernorm_grad(by_hidden, there[0], [c], found[4], found[5], there[4], there[5])
    for mine, theirs in zip([ended[0], *parameters, *ended[1:]], wanted, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-3, atol=1e-4)


HEADS = HEAD_DIM = SOURCE = TARGET = 16


def layer_inputs(batch=2, scale=0.2, with_bias=True):
    c = HEADS * HEAD_DIM
    x = [
        leaf(batch * TARGET, c, scale=scale),
        leaf(batch * SOURCE, c, scale=scale),
        leaf(batch * SOURCE, c, scale=scale),
    ]
    weights = [leaf(c, c, scale=scale / 4) for _ in range(4)]
    biases = [leaf(c) for _ in range(4)] if with_bias else [None] * 4
    return x, weights, biases, torch.randn(batch, HEADS, TARGET, SOURCE)


def layer_on_npu(*given, mask, p=0.0, dropout=None):
    x, weights, biases = given[:3], given[3:7], given[7:]
    rest = (HEADS, HEAD_DIM, SOURCE, TARGET, p, True)
    return npu.npu_multi_head_attention(*x, *weights[:3], mask.npu(), weights[3], *biases, dropout, *rest)


def plain_layer(*given, mask, kept=None):
    (query, key, value), weights, biases = given[:3], given[3:7], given[7:]
    linear = torch.nn.functional.linear
    q, k, v = (
        linear(x, w, b).reshape(2, -1, HEADS, HEAD_DIM).permute(0, 2, 1, 3)
        for x, w, b in zip((query, key, value), weights, biases, strict=False)
    )
    softmax = torch.softmax(q * HEAD_DIM**-0.5 @ k.transpose(-1, -2) + mask, -1)
    context = (softmax if kept is None else softmax * kept) @ v
    return linear(context.permute(0, 2, 1, 3).reshape(2 * TARGET, -1), weights[3], biases[3])


@pytest.mark.parametrize("with_bias", [True, False])
def test_a_multi_head_attention_layer_and_its_gradients(with_bias):
    x, weights, biases, mask = layer_inputs(with_bias=with_bias)
    same(
        lambda *t: layer_on_npu(*t, mask=mask)[0],
        lambda *t: plain_layer(*t, mask=mask),
        *x, *weights, *biases, rtol=1e-3, atol=1e-4,
    )  # fmt: skip


@pytest.mark.parametrize("given", [True, False])
def test_a_layer_drops_by_its_mask(given):
    x, weights, biases, mask = layer_inputs()
    bits = torch.randint(0, 256, (2 * HEADS * TARGET * SOURCE // 8,), dtype=torch.uint8) if given else None
    there = [on_npu(item) for item in (*x, *weights, *biases)]
    result, used, *_ = layer_on_npu(*there, mask=mask, p=0.5, dropout=None if bits is None else bits.npu())
    if given:
        assert torch.equal(used.cpu(), bits)
    numbers = used.cpu().long().unsqueeze(1)
    kept = (numbers >> torch.arange(8) & 1).reshape(2, HEADS, TARGET, SOURCE) / 0.5
    inputs = (*x, *weights, *biases)
    expected = plain_layer(*inputs, mask=mask, kept=kept)
    torch.testing.assert_close(result.cpu(), expected.detach(), rtol=1e-3, atol=1e-4)
    seed = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, inputs, seed)
    for mine, theirs in zip(torch.autograd.grad(result, there, seed.npu()), wanted, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-3, atol=1e-4)


def test_sizes_must_be_multiples_of_16():
    x = torch.randn(4, 8).npu()
    with pytest.raises(RuntimeError, match="attn_head_num must be a multiple of 16, but got 2"):
        npu.npu_multi_head_attention(x, x, x, x, x, x, x, x, None, None, None, None, None, 2, 16, 16, 16, 0.0, True)
