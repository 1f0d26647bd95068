"""Quantisation, quantised matrix products and caches against plain integer arithmetic."""

from __future__ import annotations

import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from jumar.device import DevicePlan, activate
from jumar.npu.ops.helpers import low_bits

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

npu = torch.ops.npu


def int8(*shape):
    return torch.randint(-128, 128, shape, dtype=torch.int8)


@pytest.mark.parametrize(("dtype", "limits"), [(torch.qint8, (-128, 127)), (torch.uint8, (0, 255))])
def test_quantising_by_division_is_torchs(dtype, limits):
    x, scales, zeros = torch.randn(3, 4) * 10, torch.rand(4) + 0.1, torch.randint(0, 10, (4,)).int()
    found = npu.npu_quantize(x.npu(), scales.npu(), zeros.npu(), dtype, 1).cpu()
    expected = torch.fake_quantize_per_channel_affine(x, scales, zeros, 1, *limits)
    torch.testing.assert_close((found - zeros) * scales, expected)


def test_quantising_by_multiplication():
    x, scales, zeros = torch.randn(3, 4) * 10, torch.rand(1) + 5, torch.randn(1)
    found = npu.npu_quantize(x.npu(), scales.npu(), zeros.npu(), torch.int8, -1, False)
    assert torch.equal(found.cpu(), (x * scales + zeros).round().clamp(-128, 127).to(torch.int8))


def nibbles(words):
    """Signed 4-bit integers of words, by arithmetic on bytes."""
    found = []
    for word in words.flatten().tolist():
        for byte in struct.pack("<i", word):
            found += [(n - 16 if n > 7 else n) for n in (byte & 15, byte >> 4)]
    return torch.tensor(found).view(*words.shape[:-1], -1)


def test_quantising_to_4_bits_packs_eight_to_a_word():
    x = torch.randn(3, 16)
    found = npu.npu_quantize(x.npu(), torch.tensor([3.0]).npu(), None, torch.quint4x2, -1, False).cpu()
    assert (tuple(found.shape), found.dtype) == ((3, 2), torch.int32)
    assert torch.equal(nibbles(found), (x * 3).round().clamp(-8, 7).long())


@given(st.lists(st.integers(-8, 7), min_size=8, max_size=24).filter(lambda v: len(v) % 8 == 0))
@settings(max_examples=50, deadline=None)
def test_4_bit_integers_come_back(values):
    packed = low_bits.pack_int4(torch.tensor(values), "test")
    assert nibbles(packed).tolist() == low_bits.unpack_int4(packed).tolist() == values


@given(st.floats(2.0**-100, 2.0**100, width=32), st.integers(-256, 255))
@settings(max_examples=50, deadline=None)
def test_packed_scales_keep_19_bits_and_their_offset(scale, offset):
    word = npu.npu_trans_quant_param(torch.tensor([scale]).npu(), torch.tensor([float(offset)]).npu()).cpu()
    kept = struct.unpack("<f", struct.pack("<I", struct.unpack("<I", struct.pack("<f", scale))[0] & 0xFFFFE000))[0]
    assert low_bits.scale_of(word).tolist() == [kept]
    assert low_bits.offset_of(word).tolist() == [offset]
    assert int(word) >> 46 & 1 == 1
    assert int(npu.npu_trans_quant_param(torch.tensor([scale]).npu())) == (int(word) & 0xFFFFFFFF) | 1 << 46


def test_packing_refuses_sizes_that_do_not_fit_words():
    with pytest.raises(RuntimeError, match="multiple of 8"):
        npu.npu_convert_weight_to_int4pack(torch.zeros(2, 5, dtype=torch.int32).npu())


def row_by_row(x, levels):
    rows, scales = [], []
    for row in x.reshape(-1, x.shape[-1]):
        scale = row.abs().max() / levels
        rows.append((row / scale).round())
        scales.append(scale)
    return torch.stack(rows).view(x.shape), torch.stack(scales).view(x.shape[:-1])


@pytest.mark.parametrize("smooth", [False, True])
def test_dynamic_quantisation_a_token_at_a_time(smooth):
    x, scales = torch.randn(2, 3, 16).half(), torch.rand(16).half() + 0.5
    wanted = x.float() * scales.float() if smooth else x.float()
    expected, steps = row_by_row(wanted, 127)
    found = npu.npu_dynamic_quant(x.npu(), smooth_scales=scales.npu() if smooth else None)
    assert torch.equal(found[0].cpu(), expected.to(torch.int8))
    torch.testing.assert_close(found[1].cpu(), steps)
    four, steps = npu.npu_dynamic_quant(
        x.npu(), smooth_scales=scales.npu() if smooth else None, dst_type=torch.quint4x2
    )
    assert torch.equal(nibbles(four.cpu()), row_by_row(wanted, 7)[0].long())


def test_dynamic_quantisation_by_groups_channels_and_whole_tensors():
    x, scales = torch.randn(4, 8).half(), torch.rand(2, 8).half()
    found, _ = npu.npu_dynamic_quant(x.npu(), smooth_scales=scales.npu(), group_index=torch.tensor([1, 4]).int().npu())
    spread = scales[[0, 1, 1, 1]].float()
    assert torch.equal(found.cpu(), row_by_row(x.float() * spread, 127)[0].to(torch.int8))
    by_channel, steps = npu.npu_dynamic_quant(x.npu(), quant_mode="perchannel")
    expected, wanted = row_by_row(x.float().t(), 127)
    assert torch.equal(by_channel.cpu(), expected.t().to(torch.int8))
    torch.testing.assert_close(steps.cpu(), wanted)
    whole, step = npu.npu_dynamic_quant(x.npu(), quant_mode="pertensor")
    torch.testing.assert_close(step.cpu(), x.float().abs().max().view(1) / 127)
    assert torch.equal(whole.cpu(), (x.float() / step.cpu()).round().to(torch.int8))


def test_asymmetric_quantisation_spans_the_integers():
    x = torch.randn(3, 32).half()
    found, scale, offset = (t.cpu() for t in npu.npu_dynamic_quant_asymmetric(x.npu()))
    assert (found.amax(-1) == 127).all()
    assert (found.amin(-1) <= -127).all()
    back = (found.float() - offset.unsqueeze(-1)) * scale.unsqueeze(-1)
    assert (back - x.float()).abs().max() <= scale.max() / 2 + 1e-5


def test_zeros_quantise_to_zeros():
    found, scale = npu.npu_dynamic_quant(torch.zeros(2, 8).half().npu())
    assert (found.abs().sum(), scale.abs().sum()) == (0, 0)


def test_dequantising():
    x, scale, offset = int8(3, 4), torch.rand(4), torch.randn(4)
    found = npu.npu_anti_quant(x.npu(), scale.npu(), offset=offset.npu())
    torch.testing.assert_close(found.cpu(), ((x.float() + offset) * scale).half())
    words = torch.randint(-(2**31), 2**31, (3, 2), dtype=torch.int32)
    found = npu.npu_anti_quant(words.npu(), torch.ones(1).npu(), dst_dtype=torch.bfloat16)
    assert torch.equal(found.cpu(), nibbles(words).bfloat16())


def test_dequantising_the_sums_of_a_product():
    x, scale, tokens = torch.randint(-999, 999, (3, 4), dtype=torch.int32), torch.rand(4), torch.rand(3)
    whole, real = torch.randint(-99, 99, (4,), dtype=torch.int32), torch.randn(4)
    expected = (x + whole).float() * scale * tokens.view(3, 1)
    found = npu.npu_dequant_bias(x.npu(), scale.npu(), tokens.npu(), whole.npu())
    assert torch.equal(found.cpu(), expected.half())
    found = npu.npu_dequant_bias(x.npu(), scale.npu(), None, real.npu(), output_dtype=torch.bfloat16)
    assert torch.equal(found.cpu(), (x.float() * scale + real).bfloat16())


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "packed"])
def test_quantised_products(kind):
    a, b, scale = int8(3, 16), int8(16, 4), torch.rand(4) * 1e-2
    sums = a.long() @ b.long()
    given_scale = scale.bfloat16() if kind == "bfloat16" else scale
    if kind == "packed":
        given_scale = npu.npu_trans_quant_param(scale.npu()).cpu()
        scale = low_bits.scale_of(given_scale)
    else:
        scale = given_scale.float()
    found = npu.npu_quant_matmul(a.npu(), b.npu(), given_scale.npu(), output_dtype=torch.float16)
    assert torch.equal(found.cpu(), (sums.float() * scale).half())
    found = npu.npu_quant_matmul(a.npu(), b.npu(), given_scale.npu())
    assert torch.equal(found.cpu(), (sums.float() * scale).round().clamp(-128, 127).to(torch.int8))


def test_quantised_products_with_bias_offset_and_scales_of_tokens():
    a, b, scale, tokens = int8(2, 3, 16), int8(16, 4), torch.rand(1) * 1e-2, torch.rand(3)
    whole, real, offset = torch.randint(-999, 999, (4,), dtype=torch.int32), torch.randn(4), torch.randn(1)
    sums = a.long() @ b.long()
    found = npu.npu_quant_matmul(a.npu(), b.npu(), scale.npu(), offset=offset.npu(), bias=whole.npu())
    expected = ((sums + whole).float() * scale + offset).round().clamp(-128, 127).to(torch.int8)
    assert torch.equal(found.cpu(), expected)
    found = npu.npu_quant_matmul(
        a.npu(), b.npu(), scale.npu(), pertoken_scale=tokens.npu(), bias=real.npu(), output_dtype=torch.bfloat16
    )
    assert torch.equal(found.cpu(), (sums.float() * scale * tokens.view(3, 1) + real).bfloat16())
    found = npu.npu_quant_matmul(a.npu(), b.npu(), scale.npu(), output_dtype=torch.int32)
    assert torch.equal(found.cpu(), sums.int())
    with pytest.raises(RuntimeError, match="offset needs an int8 result"):
        npu.npu_quant_matmul(a.npu(), b.npu(), scale.npu(), offset=offset.npu(), output_dtype=torch.float16)
    with pytest.raises(RuntimeError, match="both be int8 or both int32"):
        npu.npu_quant_matmul(a.int().npu(), b.npu(), scale.npu())


@pytest.mark.parametrize("group", [0, 8])
@pytest.mark.parametrize("four_bits", [False, True])
def test_products_with_quantised_weights(group, four_bits):
    x, rows = torch.randn(3, 16).half(), 2 if group else 1
    scale, offset, bias = torch.rand(rows, 8).half(), torch.randn(rows, 8).half(), torch.randn(8).half()
    weight = torch.randint(-8, 8, (16, 8)) if four_bits else int8(16, 8)
    packed = low_bits.pack_int4(weight, "test") if four_bits else weight
    spread = [t.repeat_interleave(16 // rows, 0) for t in (scale, offset)]
    full = (weight.half() + spread[1]) * spread[0]
    expected = x.double() @ full.double() + bias.double()
    found = npu.npu_weight_quant_batchmatmul(
        x.npu(), packed.npu(), scale.npu(), offset.npu(), None, None, bias.npu(), group
    )
    torch.testing.assert_close(found.cpu().double(), expected, rtol=2e-3, atol=2e-2)


def test_products_summed_over_one_rank():
    x, weight, bias, more = torch.randn(3, 4).half(), torch.randn(4, 5).half(), torch.randn(5).half(), torch.randn(3, 5)
    found = npu.npu_mm_all_reduce_base(x.npu(), weight.npu(), "", bias=bias.npu(), x3=more.half().npu())
    expected = x.double() @ weight.double() + bias.double() + more.half().double()
    torch.testing.assert_close(found.cpu().double(), expected, rtol=2e-3, atol=2e-3)


def test_norms_that_quantise():
    x, more, gamma, beta = (torch.randn(3, 16).half() for _ in range(4))
    gamma, beta = gamma[0], beta[0]
    scale, offset = torch.tensor([20.0]).half(), torch.tensor([3], dtype=torch.int8)
    normal = functional.rms_norm(x.float(), (16,), gamma.float(), 1e-6) + beta.float()
    found = npu.npu_rms_norm_quant(x.npu(), gamma.npu(), beta.npu(), scale.npu(), offset.npu())
    assert torch.equal(found.cpu(), (normal * 20 + 3).round().clamp(-128, 127).to(torch.int8))
    added = x + more
    normal = functional.rms_norm(added.float(), (16,), gamma.float(), 1e-6)
    steps = torch.rand(16) * 0.1 + 0.01
    y1, y2, total = npu.npu_add_rms_norm_quant(x.npu(), more.npu(), gamma.npu(), steps.npu(), None)
    assert torch.equal(y1.cpu(), (normal / steps).round().clamp(-128, 127).to(torch.int8))
    assert torch.equal(total.cpu(), added)
    assert y2.shape == y1.shape
    found = npu.npu_add_rms_norm_dynamic_quant(x.npu(), more.npu(), gamma.npu())
    expected, scales = row_by_row(normal, 127)
    assert torch.equal(found[0].cpu(), expected.to(torch.int8))
    torch.testing.assert_close(found[3].cpu(), scales)


@pytest.mark.parametrize("left", [False, True])
def test_swiglu_that_quantises(left):
    x, smooth = torch.randn(4, 16).half(), torch.rand(2, 8)
    a, b = x.float().chunk(2, -1)
    active = functional.silu(a) * b if left else functional.silu(b) * a
    expected, scales = row_by_row(active * smooth[[0, 1, 1, 1]], 127)
    found = npu.npu_swiglu_quant(
        x.npu(),
        smooth_scales=smooth.npu(),
        group_index=torch.tensor([1, 3]).npu(),
        activate_left=left,
        quant_mode=1,
        group_list_type=1,
    )
    assert torch.equal(found[0].cpu(), expected.to(torch.int8))
    torch.testing.assert_close(found[1].cpu(), scales)


def test_scattering_by_index():
    x, indices = torch.randn(4, 3, 2), torch.tensor([[0, 1], [3, 2]])
    updates = torch.randn(2, 2)
    expected = x.clone()
    expected[0, 1], expected[3, 2] = updates[0], updates[1]
    target = x.npu()
    found = npu.npu_scatter_nd_update(target, indices.npu(), updates.npu())
    assert torch.equal(found.cpu(), expected)
    assert torch.equal(target.cpu(), x)
    assert npu.npu_scatter_nd_update_(target, indices.npu(), updates.npu()) is target
    assert torch.equal(target.cpu(), expected)
    with pytest.raises(RuntimeError, match="updates must have the shape"):
        npu.npu_scatter_nd_update(target, indices.npu(), updates[:1].npu())


@pytest.mark.parametrize("mode", ["Norm", "PA_NZ"])
def test_tokens_are_written_into_pages(mode):
    key, value, slots = torch.randn(3, 2, 32).half(), torch.randn(3, 2, 16).half(), torch.tensor([5, -1, 2])
    shapes = [(2, 4, 2, 32), (2, 4, 2, 16)] if mode == "Norm" else [(2, 4, 4, 16), (2, 2, 4, 16)]
    caches = [torch.zeros(shape).half() for shape in shapes]
    there = [t.npu() for t in caches]
    for token, slot in ((0, 5), (2, 2)):
        for cache, source in zip(caches, (key, value), strict=True):
            if mode == "Norm":
                cache[slot // 4, slot % 4] = source[token]
            else:
                for part, piece in enumerate(source[token].flatten().split(16)):
                    cache[slot // 4, part, slot % 4] = piece
    found = npu.npu_scatter_pa_kv_cache_functional(key.npu(), value.npu(), *there, slots.int().npu(), cache_mode=mode)
    assert all(torch.equal(a.cpu(), b) for a, b in zip(found, caches, strict=True))
    assert there[0].abs().sum() == 0
    npu.npu_scatter_pa_kv_cache(key.npu(), value.npu(), *there, slots.int().npu(), cache_mode=mode)
    assert all(torch.equal(a.cpu(), b) for a, b in zip(there, caches, strict=True))


def packed(values: torch.Tensor) -> torch.Tensor:
    """Return integers from -8 to 7 as words of 8, the first in the lowest bits."""
    parts = (values.long() & 15).reshape(*values.shape[:-1], -1, 8) << torch.arange(0, 32, 4)
    return parts.sum(-1).to(torch.int32)


def four_bits(*shape: int) -> torch.Tensor:
    return torch.randint(-8, 8, shape)


@pytest.mark.parametrize("is_transposed", [False, True])
def test_a_product_of_words_of_four_bits(is_transposed):
    x, weight, scale = four_bits(6, 16), four_bits(16, 24), torch.rand(24)
    words = packed(weight.mT.contiguous()).npu().mT if is_transposed else packed(weight).npu()
    found = npu.npu_quant_matmul(packed(x).npu(), words, scale.npu(), output_dtype=torch.float16)
    expected = ((x @ weight).float() * scale).half()
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("num_groups", [0, 1, 2, 4])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_product_of_eight_by_four_bits(dtype, num_groups):
    x, weight = torch.randint(-128, 128, (5, 64)), four_bits(64, 16)
    shape = (num_groups, 16) if num_groups else (16,)
    scale, offset, per_token = torch.rand(shape) * 1e-2, torch.randn(16), torch.rand(5, 1)
    spread = scale.repeat_interleave(64 // (num_groups or 1), 0) if num_groups else scale
    expected = ((x.double() @ (weight.double() * spread.double()) + offset) * per_token).to(dtype)
    as_words = scale.view(torch.int32).long() & 0xFFFFFFFF
    for factors in (scale, as_words):
        found = npu.npu_quant_matmul(
            x.to(torch.int8).npu(),
            packed(weight).npu(),
            factors.npu(),
            offset=offset.npu(),
            pertoken_scale=per_token.npu(),
            output_dtype=dtype,
            group_sizes=[0, 0, 64 // (num_groups or 1)],
        )
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-2, atol=1e-3)


def test_mixed_widths_that_the_chip_has_not_are_refused():
    x, words = torch.ones(4, 8, dtype=torch.int8).npu(), torch.ones(8, 1, dtype=torch.int32).npu()
    with pytest.raises(RuntimeError, match="float16 or bfloat16"):
        npu.npu_quant_matmul(x, words, torch.ones(8).npu())
    with pytest.raises(RuntimeError, match="both be int8 or both int32"):
        npu.npu_quant_matmul(words, x, torch.ones(8).npu())
    with pytest.raises(RuntimeError, match="groups of scale must divide"):
        npu.npu_quant_matmul(x, words, torch.ones(3, 8).npu(), output_dtype=torch.float16)
