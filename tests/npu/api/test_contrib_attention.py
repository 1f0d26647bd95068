"""Attention of `torch_npu.contrib`: fused operators against attention written out, with gradients."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from jumar import emulate
from jumar.device import DevicePlan, activate
from jumar.npu.api.contrib.function import fused_attention
from jumar.npu.api.contrib.module import MultiheadAttention, NpuCachedDropout, multihead_attention, quant_noise
from jumar.npu.core.events import listen

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

Tensor = torch.Tensor
ND, FRACTAL_NZ = 2, 29
BATCH, LENGTH, HIDDEN = 2, 16, 768
EMBED, HEADS = 256, 16


# BERT's attention -------------------------------------------------------------------------------------------


def arguments(**shapes: tuple[int, ...]) -> dict[str, Tensor]:
    """Return the tensors a BERT layer gives, on the CPU; keyword arguments change shapes."""
    torch.manual_seed(0)
    square, vector = (HIDDEN, HIDDEN), (HIDDEN,)
    wanted = {
        "hidden_states": (BATCH * LENGTH, HIDDEN),
        "attention_mask": (BATCH, 1, LENGTH, LENGTH),
        **dict.fromkeys(("query_kernel", "key_kernel", "value_kernel"), square),
        **dict.fromkeys(("query_bias", "key_bias", "value_bias"), vector),
        **shapes,
    }
    return {name: torch.randn(shape) * (0.05 if shape == square else 1) for name, shape in wanted.items()}


def on_device(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Matrices in FRACTAL_NZ and vectors in ND, as the operators want them."""
    moved = {}
    for name, tensor in tensors.items():
        leaf = tensor.detach().npu()
        leaf = leaf.npu_format_cast(FRACTAL_NZ) if leaf.dim() > 1 else leaf
        moved[name] = leaf.detach().requires_grad_(name != "attention_mask")
    return moved


def written_out(tensors: dict[str, Tensor], scale: float) -> Tensor:
    hidden, mask = tensors["hidden_states"], tensors["attention_mask"]
    query, key, value = (
        (hidden @ tensors[f"{name}_kernel"] + tensors[f"{name}_bias"]).view(BATCH, LENGTH, -1, 64).transpose(1, 2)
        for name in ("query", "key", "value")
    )
    weights = functional.softmax(query @ key.transpose(-1, -2) * scale + mask, -1)
    return (weights @ value).transpose(1, 2).reshape(BATCH * LENGTH, HIDDEN)


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """A device with private formats, and a process that has checked nothing."""
    fused_attention._checked.clear()
    with emulate("Ascend910A", numerics="exact", unsupported="fallback"):
        yield
    fused_attention._checked.clear()


def gradients(results: list[Tensor], tensors: dict[str, Tensor]) -> list[Tensor]:
    weights = [torch.linspace(-1, 1, result.numel()).view(result.shape).to(result.device) for result in results]
    sum((result * weight).sum() for result, weight in zip(results, weights, strict=True)).backward()
    return [tensor.grad.cpu() for name, tensor in tensors.items() if name != "attention_mask"]


def test_fused_attention_is_attention_with_gradients():
    with unchecked():
        given, scale = arguments(), 0.125
        moved = on_device(given)
        result = fused_attention.npu_fused_attention(*moved.values(), scale, 1)
        plain = {name: tensor.requires_grad_() for name, tensor in given.items()}
        expected = written_out(plain, scale)
        torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-4)
        found, wanted = gradients([result], moved), gradients([expected], plain)
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3)


def test_fused_attention_with_layernorm_normalises_first_and_returns_the_norm():
    with unchecked():
        given, scale = arguments(gamma=(HIDDEN,), beta=(HIDDEN,)), 0.125
        moved = on_device(given)
        with pytest.warns(FutureWarning, match="npu_fused_attention_with_layernorm is deprecated"):
            result, norm = fused_attention.npu_fused_attention_with_layernorm(*moved.values(), scale, 1)
        plain = {name: tensor.requires_grad_() for name, tensor in given.items()}
        wanted_norm = functional.layer_norm(plain["hidden_states"], (HIDDEN,), plain["gamma"], plain["beta"])
        expected = written_out({**plain, "hidden_states": wanted_norm}, scale)
        torch.testing.assert_close(norm.cpu(), wanted_norm, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-4)
        found, wanted = gradients([result, norm], moved), gradients([expected, wanted_norm], plain)
        torch.testing.assert_close(found, wanted, rtol=1e-3, atol=2e-3)


def test_fused_attention_is_a_few_operators():
    with unchecked():
        moved = on_device(arguments())
        operators: list[str] = []
        with listen(lambda event: operators.append(event.operator)):
            fused_attention.npu_fused_attention(*moved.values(), 1, 1).sum().backward()
        own = [name for name in operators if name.startswith("npu::")]
        assert own.count("npu::npu_linear") == own.count("npu::npu_confusion_transpose") == 3
        for name in ("score_fwd", "score_grad", "qkv_grad"):
            assert own.count(f"npu::npu_fused_attention_{name}") == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_states": lambda t: t.npu_format_cast(ND)}, "format not matches"),
        ({"query_bias": lambda t: t.view(1, -1).npu_format_cast(FRACTAL_NZ)}, "format not matches"),
        ({"hidden_states": lambda t: t[:30].clone().npu_format_cast(FRACTAL_NZ)}, "shape of hidden_states not matches"),
        (
            {"attention_mask": lambda t: t.clone()[..., :8].clone().npu_format_cast(FRACTAL_NZ)},
            "shape of attention_mask",
        ),
        ({"key_kernel": lambda t: t[:64].clone().npu_format_cast(FRACTAL_NZ)}, "shape of kernel not matches"),
    ],
)
def test_what_the_operators_cannot_take_is_refused_at_the_first_call(change, words):
    with unchecked():
        moved = on_device(arguments())
        for name, changed in change.items():
            moved[name] = changed(moved[name].detach())
        with pytest.raises(RuntimeError, match=f"fused attention check compatibility failed, {words}"):
            fused_attention.npu_fused_attention(*moved.values())


def test_later_calls_are_not_checked():
    with unchecked():
        moved = on_device(arguments())
        fused_attention.npu_fused_attention(*moved.values(), 1, 1)
        moved["hidden_states"] = moved["hidden_states"].detach().npu_format_cast(ND)
        assert fused_attention.npu_fused_attention(*moved.values(), 1, 1).shape == (BATCH * LENGTH, HIDDEN)


# Multi-head attention ---------------------------------------------------------------------------------------


@pytest.fixture
def fused(monkeypatch):
    """A process that has turned the fused operator on."""
    monkeypatch.setattr(multihead_attention._MHAConfig, "use_fussion_mha", True)


def attention(**options: Any) -> MultiheadAttention:
    torch.manual_seed(0)
    return MultiheadAttention(EMBED, HEADS, **options)


def test_multihead_attention_returns_nothing_until_it_is_turned_on():
    x = torch.randn(32, EMBED).npu()
    assert attention().npu()(x, x, x, 2, 16, 16) == (None, None)


@pytest.mark.usefixtures("fused")
def test_multihead_attention_is_attention_with_gradients():
    layer, mask = attention(), torch.randn(2, HEADS, 16, 16)
    inputs = [torch.randn(32, EMBED) for _ in range(3)]
    found = []
    for device in ("npu", "cpu"):
        layer.to(device).zero_grad()
        query, key, value = leaves = [tensor.detach().to(device).requires_grad_() for tensor in inputs]
        if device == "npu":
            result, weights = layer(query, key, value, 2, 16, 16, key_padding_mask=mask.npu())
            assert weights is None
        else:
            q, k, v = (
                functional.linear(x, projection.weight, projection.bias).view(2, 16, HEADS, 16).transpose(1, 2)
                for x, projection in ((query, layer.q_proj), (key, layer.k_proj), (value, layer.v_proj))
            )
            scores = functional.softmax(q @ k.transpose(-1, -2) / math.sqrt(16) + mask, -1)
            context = (scores @ v).transpose(1, 2).reshape(32, EMBED)
            result = functional.linear(context, layer.out_proj.weight, layer.out_proj.bias)
        (result * torch.linspace(-1, 1, result.numel()).view(result.shape).to(device)).sum().backward()
        gradients = [tensor.grad.cpu() for tensor in (*leaves, *layer.parameters())]
        found.append([result.detach().cpu(), *gradients])
    torch.testing.assert_close(found[0], found[1], rtol=1e-3, atol=1e-4)


@pytest.mark.usefixtures("fused")
def test_multihead_attention_drops_weights_by_cached_masks():
    kept = dict(NpuCachedDropout.task_dict)
    NpuCachedDropout.task_dict.clear()
    try:
        layer = attention(dropout=0.5).npu()
        NpuCachedDropout.enable_dropout_ensemble(layer)
        x, mask = torch.randn(32, EMBED).npu(), torch.zeros(2, HEADS, 16, 16).npu()
        layer(x, x, x, 2, 16, 16, key_padding_mask=mask)
        first, second = (layer(x, x, x, 2, 16, 16, key_padding_mask=mask)[0] for _ in range(2))
        assert not torch.equal(first, second)
    finally:
        NpuCachedDropout.task_dict.clear()
        NpuCachedDropout.task_dict.update(kept)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"embed_dim": 10, "num_heads": 3}, "embed_dim must be divisible by num_heads"),
        ({"embed_dim": 64, "num_heads": 4, "kdim": 32, "self_attention": True}, "to be of the same size"),
    ],
)
def test_multihead_attention_refuses_sizes_that_do_not_fit(options, words):
    with pytest.raises(ValueError, match=words):
        MultiheadAttention(**options)


def test_multihead_attention_draws_smaller_weights_where_sizes_are_equal():
    bound, narrow = math.sqrt(6 / (2 * EMBED)), math.sqrt(6 / (EMBED + 48))
    same, other = attention(add_bias_kv=True), attention(kdim=48)
    assert bound / math.sqrt(2) * 0.9 < same.k_proj.weight.abs().max() <= bound / math.sqrt(2)
    assert narrow * 0.9 < other.k_proj.weight.abs().max() <= narrow
    assert other.k_proj.weight.shape == (EMBED, 48)
    assert not same.out_proj.bias.any()
    assert same.bias_k.shape == same.bias_v.shape == (1, 1, EMBED)


def test_multihead_attention_splits_the_packed_weights_of_old_checkpoints():
    weight, bias = torch.randn(3 * EMBED, EMBED), torch.randn(3 * EMBED)
    state = {"layer.attn.in_proj_weight": weight.clone(), "layer.attn.in_proj_bias": bias.clone(), "other": weight}
    attention().upgrade_state_dict_named(state, "layer.attn")
    names = [f"layer.attn.{name}_proj.{kind}" for kind in ("weight", "bias") for name in "qkv"]
    assert sorted(state) == sorted([*names, "other"])
    assert torch.equal(weight, torch.cat([state[name] for name in names[:3]]))
    assert torch.equal(bias, torch.cat([state[name] for name in names[3:]]))


def test_multihead_attentions_small_functions():
    layer = attention()
    layer.prepare_for_onnx_export_()
    layer.prepare_for_tpu_()
    assert (layer.onnx_trace, layer.tpu) == (True, True)
    weights = torch.ones(2, 3)
    assert layer.apply_sparse_mask(weights, 2, 3, 1) is weights
    x = torch.randn(6, 8).npu()
    with pytest.raises(AttributeError, match="batch_size"):
        layer.transpose_for_scores(x)
    layer.batch_size, layer.squence_length, layer.num_attention_heads, layer.attention_head_size = 2, 3, 4, 2
    assert torch.equal(layer.transpose_for_scores(x), x.view(2, 3, 4, 2).transpose(1, 2))
    assert torch.equal(multihead_attention.Matmul_transpose(x, x), x @ x.t())
    # a product of other rows may be added up in another order
    assert torch.allclose(
        layer.npu().q_proj(torch.ones(2, 3, EMBED).npu())[0], layer.q_proj(torch.ones(3, EMBED).npu()), atol=1e-5
    )
    with pytest.raises(RuntimeError, match="not support this dim"):
        layer.q_proj(torch.ones(EMBED).npu())


# Noise of quantisation --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "block"),
    [
        (lambda: nn.Linear(16, 64), (1, 8)),
        (lambda: nn.Embedding(64, 16), (1, 8)),
        (lambda: nn.Conv2d(16, 64, 1), (1, 8, 1, 1)),
        (lambda: nn.Conv2d(16, 64, (2, 4)), (1, 1, 2, 4)),
    ],
    ids=["linear", "embedding", "conv1x1", "conv"],
)
def test_quantisation_noise_drops_whole_blocks_while_training(make, block):
    torch.manual_seed(0)
    layer = quant_noise.quant_noise(make().npu(), 0.25, 8)
    before = layer.weight.detach().clone()
    inputs = torch.ones(1, 16, 4, 4).npu() if isinstance(layer, nn.Conv2d) else torch.ones(2, 16).npu()
    inputs = torch.zeros(2, dtype=torch.long).npu() if isinstance(layer, nn.Embedding) else inputs
    layer.eval()(inputs)
    assert torch.equal(before, layer.weight)
    layer.train()(inputs)
    kept = layer.weight.ne(0)
    torch.testing.assert_close(layer.weight[kept], before[kept] / 0.75)
    blocks = kept.cpu().float()
    for dim, size in enumerate(block):
        blocks = blocks.unflatten(2 * dim, (-1, size))
    blocks = blocks.permute(*range(0, blocks.dim(), 2), *range(1, blocks.dim(), 2)).reshape(-1, math.prod(block))
    assert torch.equal(blocks.min(1).values, blocks.max(1).values)
    assert 0.6 < blocks[:, 0].mean().item() < 0.9


@pytest.mark.parametrize(
    ("layer", "error", "words"),
    [
        (nn.Linear(10, 4), ValueError, "Input features must be a multiple of block sizes"),
        (nn.Conv2d(10, 4, 1), ValueError, "Input channels must be a multiple of block sizes"),
        (nn.Conv2d(10, 4, 3), ValueError, "Kernel size must be a multiple of block size"),
        (nn.Conv1d(8, 4, 1), TypeError, r"isinstance\(module, \(nn\.Linear, nn\.Embedding, nn\.Conv2d\)\)"),
    ],
)
def test_quantisation_noise_wants_blocks_that_fit(layer, error, words):
    with pytest.raises(error, match=words):
        quant_noise.quant_noise(layer, 0.5, 8)
    assert quant_noise.quant_noise(layer, 0.0, 8) is layer
