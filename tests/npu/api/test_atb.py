"""`torch_npu.atb`: what has a kernel calculates, what has none says so."""

from __future__ import annotations

import importlib

import pytest
import torch

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))
torch_npu = importlib.import_module("torch_npu")


def test_the_module_has_the_vendors_names():
    module = importlib.import_module("torch_npu.atb")
    assert module is torch_npu.atb
    assert callable(module.npu_paged_cache_load)
    assert callable(torch_npu._npu_paged_attention_splitfuse)
    with pytest.raises(AttributeError):
        _ = torch_npu._npu_no_such_operator


@pytest.mark.parametrize("name", ["npu_mla_preprocess", "npu_ring_mla", "npu_fused_add_topk_div"])
def test_what_is_not_emulated_says_so(name):
    with pytest.raises(NotImplementedError, match=f"torch_npu.atb.{name} is not emulated"):
        getattr(torch_npu.atb, name)(torch.ones(2, device="npu"))


def test_a_product_is_added():
    x, weight, total = torch.randn(5, 3).half(), torch.randn(5, 4).half(), torch.randn(3, 4)
    on_npu = total.npu()
    torch_npu._npu_matmul_add_fp32(x.npu(), weight.npu(), on_npu)
    torch.testing.assert_close(on_npu.cpu(), total + x.float().t() @ weight.float())


def test_one_token_attends_to_the_cache():
    lengths, block, heads, groups, size = [5, 2, 9], 4, 4, 2, 8
    keys, values = ([torch.randn(length, groups, size) for length in lengths] for _ in range(2))
    caches = [torch.zeros(8, block, groups, size).npu() for _ in range(2)]
    table = torch.tensor([[3, 1, 0], [7, 0, 0], [2, 5, 4]])
    for sequence, length in enumerate(lengths):
        slots = torch.tensor([int(table[sequence, i // block]) * block + i % block for i in range(length)])
        given = (keys[sequence].npu(), values[sequence].npu(), *caches, slots.int().npu())
        torch_npu._npu_reshape_and_cache(*given)
    single = torch.zeros(8, block, groups, size).npu()
    torch_npu._npu_reshape_and_cache_siso(keys[1].npu(), single, torch.tensor([28, 29], dtype=torch.int32).npu())
    assert torch.equal(single[7, :2].cpu(), keys[1])
    query, out = torch.randn(3, heads, size), torch.empty(3, heads, size).npu()
    lens = torch.tensor(lengths, dtype=torch.int32).npu()
    torch_npu._npu_paged_attention(query.npu(), *caches, groups, heads, 0.3, table.int().npu(), lens, out)
    for sequence in range(3):
        expected = torch.nn.functional.scaled_dot_product_attention(
            query[sequence].unsqueeze(1),
            keys[sequence].transpose(0, 1).repeat_interleave(2, 0),
            values[sequence].transpose(0, 1).repeat_interleave(2, 0),
            scale=0.3,
        )
        torch.testing.assert_close(out[sequence].cpu(), expected.squeeze(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_neox", [False, True])
def test_rotary_embedding_in_place(is_neox):
    cache, positions = torch.randn(10, 6), torch.tensor([3, 0, 9])
    query, key = torch.randn(3, 16), torch.randn(3, 8)
    ours = query.npu(), key.npu()
    torch_npu._npu_rotary_embedding(positions.npu(), *ours, 8, cache.npu(), is_neox)
    mode = "half" if is_neox else "interleave"
    expected = torch_npu.npu_mrope(positions.npu(), query.npu(), key.npu(), cache.npu(), 8, rotary_mode=mode)
    for one, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other.cpu())


def test_quantised_into_an_output():
    x, y = torch.tensor([1.0, -300.0, 0.26]), torch.zeros(3, dtype=torch.int8).npu()
    torch_npu._npu_quantize_per_tensor(x.npu(), torch.tensor([0.5]).npu(), torch.tensor([1.0]).npu(), y)
    assert y.tolist() == [3, -128, 2]
