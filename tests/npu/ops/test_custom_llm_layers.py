"""Norms, activations, rotary embeddings and losses of language models against plain compositions in PyTorch."""

from __future__ import annotations

import pytest
import torch
from custom_reference import leaf, on_npu, same
from torch.nn import functional

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

npu = torch.ops.npu
HALF = (torch.float16, torch.bfloat16)
LOOSE = {torch.float16: {"rtol": 2e-3, "atol": 2e-3}, torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2}}


def rms(x, gamma, epsilon=1e-6):
    return functional.rms_norm(x, gamma.shape, gamma, epsilon)


@pytest.mark.parametrize("shape", [(3, 8), (2, 3, 8), (8,)])
def test_rms_norm(shape):
    same(lambda x, g: npu.npu_rms_norm(x, g)[0], rms, leaf(*shape), leaf(8))


def test_rms_norm_over_two_dimensions_gives_one_rstd_a_row():
    x, gamma = leaf(3, 4, 8), leaf(4, 8)
    same(lambda a, g: npu.npu_rms_norm(a, g, 1e-3)[0], lambda a, g: rms(a, g, 1e-3), x, gamma)
    rstd = npu.npu_rms_norm(on_npu(x), on_npu(gamma))[1]
    expected = (x.square().mean((1, 2), keepdim=True) + 1e-6).rsqrt()
    assert rstd.dtype == torch.float32
    torch.testing.assert_close(rstd.cpu(), expected)


@pytest.mark.parametrize("dtype", HALF)
def test_rms_norm_of_16_bits_is_summed_in_32(dtype):
    x, gamma = torch.randn(4, 64).to(dtype), torch.randn(64).to(dtype)
    y, rstd = npu.npu_rms_norm(x.npu(), gamma.npu())
    assert (y.dtype, rstd.dtype) == (dtype, torch.float32)
    assert torch.equal(y.cpu(), rms(x.float(), gamma.float()).to(dtype))


def test_rms_norm_gives_half_results_for_half_inputs_and_wide_gamma():
    y, _ = npu.npu_rms_norm(torch.randn(2, 8).half().npu(), torch.ones(8).npu())
    assert y.dtype == torch.float16


def test_rms_norm_refuses_a_gamma_of_another_shape():
    with pytest.raises(RuntimeError, match=r"gamma must have the shape.*\(2, 8\).*\(4,\)"):
        npu.npu_rms_norm(torch.randn(2, 8).npu(), torch.ones(4).npu())


def test_rms_norm_refuses_float64():
    with pytest.raises(RuntimeError, match="float64"):
        npu.npu_rms_norm(torch.randn(2, 8).double().npu(), torch.ones(8).double().npu())


def test_added_rms_norms():
    a, b, gamma = torch.randn(2, 3, 8), torch.randn(2, 3, 8), torch.randn(8)
    y, expected = rms(a + b, gamma), (a + b).square().mean(-1, keepdim=True).add(1e-6).rsqrt()
    there = [t.npu() for t in (a, b, gamma)]
    for found, wanted in (
        (npu.npu_add_rms_norm(*there), (y, expected, a + b)),
        (npu.npu_add_rms_norm_cast(*there), (y, y, expected, a + b)),
        (npu.npu_add_rms_norm_v2_functional(*there), (expected, y, a + b)),
        (npu.npu_gemma_rms_norm(a.npu(), gamma.npu()), (rms(a, gamma + 1), None)),
    ):
        for mine, theirs in zip(found, wanted, strict=True):
            if theirs is not None:
                torch.testing.assert_close(mine.cpu(), theirs)


def test_added_rms_norm_in_place():
    a, b, gamma = torch.randn(2, 8), torch.randn(2, 8), torch.randn(8)
    x1, x2 = a.npu(), b.npu()
    rstd = npu.npu_add_rms_norm_v2(x1, x2, gamma.npu())
    torch.testing.assert_close(x1.cpu(), rms(a + b, gamma))
    torch.testing.assert_close(x2.cpu(), a + b)
    torch.testing.assert_close(rstd.cpu(), (a + b).square().mean(-1, keepdim=True).add(1e-6).rsqrt())


def test_add_layer_norm():
    def reference(a, b, gamma, beta):
        return functional.layer_norm(a + b, gamma.shape, gamma, beta, 1e-5), a + b

    inputs = (leaf(3, 4, 8), leaf(3, 4, 8), leaf(8), leaf(8))
    same(lambda *a: npu.npu_add_layer_norm(*a, 1e-5, True), reference, *inputs, kept=(0, 3))
    assert npu.npu_add_layer_norm(*on_npu(inputs))[3].numel() == 0


def test_deep_norm():
    def reference(x, gx, beta, gamma):
        return functional.layer_norm(0.5 * x + gx, gamma.shape, gamma, beta, 1e-5)

    same(
        lambda *a: npu.npu_deep_norm(*a, 0.5, 1e-5)[2], reference, leaf(3, 2, 8), leaf(3, 2, 8), leaf(2, 8), leaf(2, 8)
    )


def test_group_norm_swish():
    def reference(x, weight, bias):
        y = functional.group_norm(x, 2, weight, bias, 1e-5)
        return y * torch.sigmoid(1.5 * y)

    same(lambda x, w, b: npu.npu_group_norm_swish(x, 2, w, b, 1e-5, 1.5)[0], reference, leaf(3, 6, 4), leaf(6), leaf(6))


def test_group_norm_silu():
    x, weight, bias = torch.randn(2, 6, 4, 4), torch.randn(6), torch.randn(6)
    expected = list(torch.ops.aten.native_group_norm(x, weight, bias, 2, 6, 16, 3, 1e-5))
    expected[0] = functional.silu(expected[0])
    for mine, theirs in zip(npu.npu_group_norm_silu(x.npu(), weight.npu(), bias.npu(), 3), expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs)


def test_layer_norm_for_inference():
    x, weight, bias = torch.randn(2, 8), torch.randn(8), torch.randn(8)
    same(
        lambda *a: npu.npu_layer_norm_eval(a[0], [8], a[1], a[2]),
        lambda *a: functional.layer_norm(a[0], [8], a[1], a[2]),
        x,
        weight,
        bias,
    )


@pytest.mark.parametrize(
    ("operator", "reference"),
    [
        (npu.npu_silu, functional.silu),
        (npu.npu_mish, functional.mish),
        (npu.npu_gelu, functional.gelu),
        (lambda x: npu.npu_gelu(x, approximate="tanh"), lambda x: functional.gelu(x, approximate="tanh")),
        (npu.npu_fast_gelu, lambda x: x / (1 + torch.exp(-1.702 * x.abs())) * torch.exp(0.851 * (x - x.abs()))),
        (npu.fast_gelu, lambda x: x * torch.sigmoid(1.702 * x)),
        (npu.npu_swiglu, lambda x: functional.silu(x[..., :4]) * x[..., 4:]),
        (lambda x: npu.npu_swiglu(x, 0), lambda x: functional.silu(x[:2]) * x[2:]),
        (lambda x: npu.npu_geglu(x)[0], lambda x: x[..., :4] * functional.gelu(x[..., 4:], approximate="tanh")),
        (lambda x: npu.npu_geglu(x, -1, 0, True)[0], lambda x: functional.gelu(x[..., :4]) * x[..., 4:]),
    ],
)
def test_activations(operator, reference):
    same(operator, reference, leaf(4, 8))


@pytest.mark.parametrize(
    ("backward", "forward", "arguments"),
    [
        (npu.npu_silu_backward, functional.silu, lambda x: (x, functional.silu(x))),
        (npu.npu_mish_backward, functional.mish, lambda x: (x,)),
        (npu.npu_fast_gelu_backward, lambda x: x * torch.sigmoid(1.702 * x), lambda x: (x,)),
        (npu.npu_gelu_backward, functional.gelu, lambda x: (x,)),
        (npu.npu_swiglu_backward, lambda x: functional.silu(x[:, :4]) * x[:, 4:], lambda x: (x,)),
        (
            npu.npu_geglu_grad,
            lambda x: x[:, :4] * functional.gelu(x[:, 4:], approximate="tanh"),
            lambda x: (x, functional.gelu(x[:, 4:])),
        ),
    ],
)
def test_backward_operators_can_be_called_by_name(backward, forward, arguments):
    x = leaf(3, 8)
    y = forward(x)
    seed = torch.randn_like(y)
    expected = torch.autograd.grad(y, x, seed)[0]
    found = backward(seed.npu(), *(a.detach().npu() for a in arguments(x)))
    torch.testing.assert_close(found.cpu(), expected)


def test_group_norm_swish_backward_operator():
    x, weight, bias = leaf(3, 6, 4), leaf(6), leaf(6)
    normal, mean, rstd = torch.ops.aten.native_group_norm(x, weight, bias, 3, 6, 4, 2, 1e-5)
    y = normal * torch.sigmoid(normal)
    seed = torch.randn_like(y)
    expected = torch.autograd.grad(y, (x, weight, bias), seed)
    found = npu.npu_group_norm_swish_grad(
        seed.npu(), on_npu(x), 2, on_npu(weight), on_npu(bias), on_npu(mean), on_npu(rstd), [True, True, True]
    )
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5)


def test_an_odd_size_has_no_halves():
    with pytest.raises(RuntimeError, match=r"must be even.*5"):
        npu.npu_swiglu(torch.randn(2, 5).npu())


def test_gelu_mul_and_clipped_swiglu():
    x = torch.randn(3, 8) * 4
    torch.testing.assert_close(npu.npu_gelu_mul(x.npu()).cpu(), functional.gelu(x[:, :4]) * x[:, 4:])
    glu, linear = x[:, ::2].clamp(max=7.0), x[:, 1::2].clamp(-7.0, 7.0)
    expected = glu * torch.sigmoid(1.702 * glu) * (linear + 1)
    expected[2:] = 0
    found = npu.npu_clipped_swiglu(x.npu(), group_index=torch.tensor([1, 1]).npu())
    torch.testing.assert_close(found.cpu(), expected)


def turned(x, cos, sin, mode):
    """The rotation as complex numbers, an independent way to it."""
    size = x.shape[-1] // 2
    pairs = (x[..., :size], x[..., size:]) if mode == "half" else (x[..., ::2], x[..., 1::2])
    angle = (cos[..., :size], sin[..., :size]) if mode == "half" else (cos[..., ::2], sin[..., ::2])
    a, b = pairs[0] * angle[0] - pairs[1] * angle[1], pairs[1] * angle[0] + pairs[0] * angle[1]
    return torch.cat((a, b), -1) if mode == "half" else torch.stack((a, b), -1).flatten(-2)


@pytest.mark.parametrize("mode", ["half", "interleave"])
def test_rotary_embedding(mode):
    x, angle = leaf(2, 3, 4, 8), torch.rand(2, 3, 1, 4) * 6
    spread = torch.cat((angle, angle), -1) if mode == "half" else angle.repeat_interleave(2, -1)
    cos, sin = spread.cos(), spread.sin()
    same(lambda a, c, s: npu.npu_rotary_mul(a, c, s, mode), lambda a, c, s: turned(a, c, s, mode), x, cos, sin)
    found = npu.npu_apply_rotary_pos_emb(on_npu(x.detach()), on_npu(x.detach()), cos.npu(), sin.npu(), "BSND", mode)
    for value in found:
        torch.testing.assert_close(value.cpu(), turned(x.detach(), cos, sin, mode))


def test_rotary_embedding_gives_gradients_to_the_angles():
    def reference(x, r1, r2):
        return x * r1 + torch.cat((-x[..., 4:], x[..., :4]), -1) * r2

    same(npu.npu_rotary_mul, reference, leaf(2, 3, 8), leaf(1, 3, 8), leaf(1, 3, 8))


def test_rotary_embedding_by_a_matrix():
    x, cos, sin = torch.randn(2, 8), torch.randn(2, 8), torch.randn(2, 8)
    matrix = torch.zeros(8, 8)
    matrix[:4, 4:], matrix[4:, :4] = torch.eye(4), -torch.eye(4)
    expected = npu.npu_rotary_mul(x.npu(), cos.npu(), sin.npu())
    found = npu.npu_rotary_mul(x.npu(), cos.npu(), sin.npu(), "half", matrix.npu())
    torch.testing.assert_close(found.cpu(), expected.cpu())


def test_interleaved_rotary_embedding_of_deepseek():
    x, angle = torch.randn(2, 3, 4, 8), torch.rand(2, 1, 4, 4)
    cos, sin = torch.cat((angle, angle), -1).cos(), torch.cat((angle, angle), -1).sin()
    sorted_pairs = x.view(2, 3, 4, 4, 2).transpose(-1, -2).reshape(2, 3, 4, 8)
    expected = turned(sorted_pairs, cos, sin, "half")
    torch.testing.assert_close(npu.npu_interleave_rope(x.npu(), cos.npu(), sin.npu()).cpu(), expected)


@pytest.mark.parametrize("mode", ["half", "interleave"])
def test_rotary_embedding_with_positions_on_three_axes(mode):
    cache, positions = torch.randn(10, 6), torch.randint(0, 10, (3, 5))
    query, key = torch.randn(5, 2 * 8), torch.randn(5, 8)
    rows = cache[positions]
    parts = [rows[a, :, [a]] for a in range(3)], [rows[a, :, [3 + a]] for a in range(3)]
    cos, sin = (torch.cat(part, -1).unsqueeze(1) for part in parts)

    def reference(value):
        heads = value.view(5, -1, 8)
        wide = [torch.cat((t, t), -1) if mode == "half" else t.repeat_interleave(2, -1) for t in (cos, sin)]
        return torch.cat((turned(heads[..., :6], *wide, mode), heads[..., 6:]), -1).view_as(value)

    found = npu.npu_mrope(
        positions.npu(), query.npu(), key.npu(), cache.npu(), 8, mrope_section=[1, 1, 1], rotary_mode=mode
    )
    for mine, theirs in zip(found, (query, key), strict=True):
        torch.testing.assert_close(mine.cpu(), reference(theirs))
    rounded = [value.bfloat16().npu() for value in (query, key, cache)]
    options = {"mrope_section": [1, 1, 1], "rotary_mode": mode}
    found = npu.npu_mrope(positions.npu(), *rounded, 8, **options)
    wide = npu.npu_mrope(positions.npu(), *(value.float() for value in rounded), 8, **options)
    assert all(torch.equal(one, other.bfloat16()) for one, other in zip(found, wide, strict=True)), "rounded once"


@pytest.mark.parametrize(("sections", "half"), [([2, 2, 2], 6), ([4, 2, 2], 8), ([8, 12, 12], 32)])
def test_rotary_embedding_whose_axes_alternate(sections, half):
    cache, positions = torch.randn(10, 2 * half), torch.randint(0, 10, (3, 5))
    query, key = torch.randn(5, 2 * 2 * half), torch.randn(5, 2 * half)
    mixed = torch.empty(5, 2, half)
    for place in range(half):
        axis = place % 3 if place < 3 * sections[1] else 0
        mixed[:, 0, place] = cache[positions[axis], place]
        mixed[:, 1, place] = cache[positions[axis], half + place]
    joined = mixed.reshape(5, 2 * half)
    options = {"mrope_section": sections, "cache_mode": "interleave"}
    found = npu.npu_mrope(positions.npu(), query.npu(), key.npu(), cache.npu(), 2 * half, **options)
    plain = npu.npu_mrope(torch.arange(5).npu(), query.npu(), key.npu(), joined.npu(), 2 * half)
    assert all(torch.equal(one, other) for one, other in zip(found, plain, strict=True))


def test_modes_of_the_rotary_cache_are_checked():
    given = [torch.zeros(4, 2, dtype=torch.int64).npu(), *(torch.randn(2, 8).npu() for _ in range(3))]
    with pytest.raises(RuntimeError, match="three sections"):
        npu.npu_mrope(*given, 8, mrope_section=[1, 1, 1, 1], cache_mode="interleave")
    with pytest.raises(RuntimeError, match="as many parts as positions"):
        npu.npu_mrope(*given, 8, mrope_section=[2, 1, 1])
    with pytest.raises(RuntimeError, match="cache_mode only support default or interleave, but got mixed"):
        npu.npu_mrope(*given, 8, mrope_section=[1, 1, 1, 1], cache_mode="mixed")


def test_scaled_masked_softmax():
    mask = torch.rand(2, 1, 4, 4) > 0.6

    def reference(x):
        return torch.softmax(torch.where(mask, torch.tensor(-10000.0), x * 0.5), -1)

    same(lambda x: npu.npu_scaled_masked_softmax(x, mask.npu(), 0.5), reference, leaf(2, 3, 4, 4))


def test_softmax_of_attention_in_place_and_its_gradient():
    logits, values, seed = leaf(2, 3, 4), torch.randn(2, 4, 5), torch.randn(2, 3, 5)
    probabilities = torch.softmax(logits, -1)
    expected = torch.autograd.grad(probabilities @ values, logits, seed)[0]
    x = logits.detach().npu()
    npu.npu_attn_softmax_(x)
    torch.testing.assert_close(x.cpu(), probabilities.detach())
    npu.npu_attn_softmax_backward_(x, seed.npu(), values.npu())
    torch.testing.assert_close(x.cpu(), expected)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(reduction, weighted, smoothing):
    target = torch.tensor([1, 0, 2, 3, 1])
    weight = torch.rand(4) + 0.5 if weighted else None

    def reference(x):
        found = functional.cross_entropy(
            x, target, weight, reduction=reduction, ignore_index=2, label_smoothing=smoothing
        )
        return found if reduction == "none" else found.reshape(1)

    def operator(x):
        there = None if weight is None else weight.npu()
        return npu.npu_cross_entropy_loss(x, target.npu(), there, reduction, 2, smoothing)[0]

    same(operator, reference, leaf(5, 4))


def test_cross_entropy_backward_operator():
    x, target = leaf(5, 4), torch.tensor([1, 0, 2, 3, 1])
    expected = torch.autograd.grad(functional.cross_entropy(x, target), x)[0]
    log_prob = torch.log_softmax(x.detach(), -1)
    found = npu.npu_cross_entropy_loss_backward(torch.ones(1).npu(), log_prob.npu(), target.npu())
    torch.testing.assert_close(found.cpu(), expected)


@pytest.mark.parametrize("nesterov", [False, True])
def test_adam_step(nesterov):
    var, m, v, grad = torch.randn(4), torch.randn(4), torch.rand(4), torch.randn(4)
    there = [t.clone().npu() for t in (var, m, v)]
    npu.npu_apply_adam.out(
        0.81, 0.98, 0.1, 0.9, 0.99, 1e-6, grad.npu(), False, nesterov, var=there[0], m=there[1], v=there[2]
    )
    first, second = 0.9 * m + 0.1 * grad, 0.99 * v + 0.01 * grad**2
    rate = 0.1 * (1 - 0.98) ** 0.5 / (1 - 0.81)
    direction = 0.9 * first + 0.1 * grad if nesterov else first
    expected = (var - rate * direction / (second.sqrt() + 1e-6), first, second)
    for mine, theirs in zip(there, expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs)


def test_three_steps_of_adamw_are_those_of_torch_optim():
    parameter = torch.nn.Parameter(torch.randn(4))
    optimizer = torch.optim.AdamW([parameter], lr=0.1, betas=(0.9, 0.99), weight_decay=0.2)
    state = [parameter.detach().clone().npu(), torch.zeros(4).npu(), torch.zeros(4).npu()]
    for step in range(3):
        parameter.grad = torch.randn(4)
        npu.npu_apply_adam_w.out(
            0.9**step,
            0.99**step,
            0.1,
            0.2,
            0.9,
            0.99,
            1e-8,
            parameter.grad.npu(),
            None,
            False,
            False,
            var=state[0],
            m=state[1],
            v=state[2],
        )
        optimizer.step()
        torch.testing.assert_close(state[0].cpu(), parameter.detach())


def test_bert_adam_step_and_what_it_refuses():
    var, m, v, grad = torch.randn(4), torch.randn(4), torch.rand(4), torch.randn(4)
    there = dict(zip(("var", "m", "v"), (t.clone().npu() for t in (var, m, v)), strict=True))
    npu.npu_bert_apply_adam.out(0.1, 0.9, 0.99, 1e-6, grad.npu(), -1.0, 0.0, 0.01, **there)
    first, second = 0.9 * m + 0.1 * grad, 0.99 * v + 0.01 * grad**2
    torch.testing.assert_close(there["var"].cpu(), var - 0.1 * (first / (second.sqrt() + 1e-6) + 0.01 * var))
    with pytest.raises(NotImplementedError, match="max_grad_norm"):
        npu.npu_bert_apply_adam.out(0.1, 0.9, 0.99, 1e-6, grad.npu(), 1.0, 0.0, 0.01, **there)
    with pytest.raises(RuntimeError, match="give out="):
        npu.npu_bert_apply_adam(0.1, 0.9, 0.99, 1e-6, grad.npu(), -1.0, 0.0, 0.01)


@pytest.mark.parametrize("saves_memory", [False, True])
@pytest.mark.parametrize("dtype", HALF)
def test_the_parts_of_a_cross_entropy_over_a_spread_vocabulary_give_its_gradients(saves_memory, dtype):
    x, weight = torch.randn(9, 8).to(dtype), torch.randn(12, 8).to(dtype)
    target = torch.arange(9) % 12
    a, b = x.float().requires_grad_(), weight.float().requires_grad_()
    expected = functional.cross_entropy(a @ b.T, target, reduction="none")
    expected.sum().backward()
    logits = x.float() @ weight.float().T
    greatest = logits.max(-1).values
    total = (logits - greatest[:, None]).exp().sum(-1)
    own = (logits - greatest[:, None]).gather(1, target[:, None]).squeeze(1)
    loss, softmax = npu.npu_fused_cross_entropy_loss_with_max_sum(
        greatest.npu(), total.npu(), own.npu(), vocab_parallel_logits=logits.npu()
    )
    torch.testing.assert_close(loss.cpu(), expected.detach())
    given = {"logits_max": greatest.npu(), "sum_exp_logits": total.npu()} if saves_memory else {"softmax": softmax}
    masks = torch.zeros(2, dtype=torch.uint8).npu()
    found = npu.npu_fused_linear_cross_entropy_loss_with_max_sum_backward(
        torch.ones(9).npu(), x.npu(), weight.npu(), masks, target.int().npu(), **given
    )
    torch.testing.assert_close(found[0].cpu(), a.grad.to(dtype), **LOOSE[dtype])
    torch.testing.assert_close(found[1].cpu(), b.grad.to(dtype), **LOOSE[dtype])


def test_a_masked_target_takes_nothing_off_the_softmax():
    x, weight, softmax = torch.eye(3), torch.eye(3), torch.full((3, 3), 0.25)
    masks = torch.tensor([0b010], dtype=torch.uint8).npu()
    by_x, _ = npu.npu_fused_linear_cross_entropy_loss_with_max_sum_backward(
        torch.ones(3).npu(), x.npu(), weight.npu(), masks, torch.tensor([0, 0, 0]).npu(), softmax=softmax.npu()
    )
    assert by_x.cpu()[:, 0].tolist() == [-0.75, 0.25, -0.75]
