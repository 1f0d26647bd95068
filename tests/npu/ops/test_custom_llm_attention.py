"""Fused attention against an independent formula: one score at a time, in float64."""

from __future__ import annotations

import math

import pytest
import torch
from custom_reference import gradients, leaf, on_npu, same

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

npu = torch.ops.npu
B, N, S, D = 2, 4, 6, 8
TRIANGLE = torch.ones(2048, 2048, dtype=torch.bool).triu(1)


def attention(query, key, value, *, scale=1.0, visible=None, bias=None, bias_after=None, kept=None, keep_prob=1.0):
    """(B, N, S, D) in float64. visible(b, i, j) says whether query i of batch b sees key j."""
    q, k, v = (t.double() for t in (query, key, value))
    groups = q.shape[1] // k.shape[1]
    k, v = (torch.cat([t[:, n // groups : n // groups + 1] for n in range(q.shape[1])], 1) for t in (k, v))
    scores = torch.einsum("bnid,bnjd->bnij", q, k)
    scores = (scores if bias is None else scores + bias.double()) * scale
    scores = scores if bias_after is None else scores + bias_after.double()
    if visible is not None:
        seen = torch.tensor(
            [[[visible(b, i, j) for j in range(k.shape[2])] for i in range(q.shape[2])] for b in range(q.shape[0])]
        )
        scores = scores.masked_fill(~seen.unsqueeze(1), -math.inf)
    weights = torch.nan_to_num(torch.softmax(scores, -1), 0.0)
    weights = weights if kept is None else weights * kept.double() / keep_prob
    return torch.einsum("bnij,bnjd->bnid", weights, v).to(query.dtype)


def tensors(keys=S, heads=N, size=D):
    return leaf(B, N, S, D), leaf(B, heads, keys, D), leaf(B, heads, keys, size)


def laid_out(x, layout):
    if layout in ("BSH", "SBH"):
        x = x.transpose(1, 2).flatten(2)
        return x if layout == "BSH" else x.transpose(0, 1)
    return x.transpose(1, 2) if layout == "BSND" else x


@pytest.mark.parametrize("layout", ["BSH", "SBH", "BSND", "BNSD"])
@pytest.mark.parametrize("heads", [4, 2, 1])
def test_every_layout_and_grouped_heads(layout, heads):
    def operator(q, k, v):
        inputs = (laid_out(t, layout).contiguous() for t in (q, k, v))
        return npu.npu_fusion_attention(*inputs, N, layout, scale=0.3)[0]

    same(operator, lambda *a: laid_out(attention(*a, scale=0.3), layout), *tensors(heads=heads))


def test_values_may_be_narrower_than_keys():
    same(lambda *a: npu.npu_fusion_attention(*a, N, "BNSD")[0], attention, *tensors(size=4))


def test_statistics_of_rows_come_eight_times():
    q, k, v = (t.detach() for t in tensors(keys=5))
    found = npu.npu_fusion_attention(q.npu(), k.npu(), v.npu(), N, "BNSD", scale=0.5)
    scores = q @ k.transpose(-1, -2) * 0.5
    top = scores.amax(-1, keepdim=True)
    total = (scores - top).exp().sum(-1, keepdim=True)
    torch.testing.assert_close(found[1].cpu(), top.expand(B, N, S, 8))
    torch.testing.assert_close(found[2].cpu(), total.expand(B, N, S, 8))
    assert (found[1].dtype, found[3].numel(), found[4:]) == (torch.float32, 0, (0, 0, B * N * S * 5))


@pytest.mark.parametrize("keys", [6, 9])
@pytest.mark.parametrize("mode", [0, 1, 2, 3, 4, 5, 6])
def test_sparse_modes(mode, keys):
    shift = keys - S
    prefix = [4, 5]
    rules = {
        0: lambda b, i, j: i - 2 <= j <= i + 1,
        1: lambda b, i, j: (i * j) % 3 != 1,
        2: lambda b, i, j: j <= i,
        3: lambda b, i, j: j <= i + shift,
        4: lambda b, i, j: i + shift - 3 <= j <= i + shift + 1,
        5: lambda b, i, j: j <= i + shift or j < prefix[b],
        6: lambda b, i, j: j <= i + shift or j < prefix[b],
    }
    visible = rules[mode]
    mask, more = TRIANGLE, {}
    if mode in (0, 1, 5):
        rows = [[[not visible(b, i, j) for j in range(keys)] for i in range(S)] for b in range(B)]
        mask = torch.tensor(rows).unsqueeze(1)
    if mode == 6:
        mask = torch.cat([TRIANGLE, torch.zeros(1024, 2048, dtype=torch.bool)])
    if mode in (0, 4):
        more = {"pre_tockens": 2 if mode == 0 else 3, "next_tockens": 1}
    if mode in (5, 6):
        more = {"prefix": prefix}

    def operator(*inputs):
        return npu.npu_fusion_attention(*inputs, N, "BNSD", atten_mask=mask.npu(), sparse_mode=mode, **more)[0]

    same(operator, lambda *a: attention(*a, visible=visible), *tensors(keys=keys))


def test_the_band_of_mode_0_hides_beside_the_mask():
    none = torch.zeros(S, S, dtype=torch.bool)

    def operator(*inputs):
        return npu.npu_fusion_attention(*inputs, N, "BNSD", atten_mask=none.npu(), pre_tockens=1, next_tockens=0)[0]

    same(operator, lambda *a: attention(*a, visible=lambda b, i, j: i - 1 <= j <= i), *tensors())


def test_without_a_mask_modes_and_bands_do_nothing():
    q, k, v = on_npu([t.detach() for t in tensors()])
    plain = npu.npu_fusion_attention(q, k, v, N, "BNSD")[0]
    found = npu.npu_fusion_attention(q, k, v, N, "BNSD", sparse_mode=2, pre_tockens=0, next_tockens=0)[0]
    assert torch.equal(plain.cpu(), found.cpu())


@pytest.mark.parametrize("shape", [(B, N, S, S), (1, N, S, S), (B, N, 1, S)])
def test_position_encodings_are_added_before_the_scale(shape):
    same(
        lambda q, k, v, pse: npu.npu_fusion_attention(q, k, v, N, "BNSD", pse, scale=0.5)[0],
        lambda q, k, v, pse: attention(q, k, v, scale=0.5, bias=pse),
        *tensors(),
        leaf(*shape),
    )


def test_the_second_version_adds_them_on_either_side():
    def operator(pse_type):
        return lambda q, k, v, pse: npu.npu_fusion_attention_v2(
            q, k, v, N, "BNSD", pse=pse, scale=0.5, pse_type=pse_type
        )[0]

    inputs = (*tensors(), leaf(B, N, S, S))
    same(operator(1), lambda q, k, v, pse: attention(q, k, v, scale=0.5, bias=pse), *inputs)
    same(operator(0), lambda q, k, v, pse: attention(q, k, v, scale=0.5, bias_after=pse), *inputs)


def bits(mask, num):
    """Bits of bytes, the lowest first."""
    return torch.tensor([(int(mask[i // 8]) >> (i % 8)) & 1 for i in range(num)], dtype=torch.bool)


def test_dropout_is_the_mask_of_its_seed_forward_and_backward():
    inputs = tensors()
    there = on_npu(inputs)
    result = npu.npu_fusion_attention(*there, N, "BNSD", keep_prob=0.7)
    seed, offset, num = result[4:]
    assert (num, seed != 0) == (B * N * S * S, True)
    mask = npu._npu_dropout_gen_mask(torch.empty(0).npu(), [num], 0.3, seed, offset).cpu()
    kept = bits(mask, num).view(B, N, S, S)
    assert 0.5 < kept.float().mean() < 0.9
    expected = attention(*inputs, kept=kept, keep_prob=0.7)
    torch.testing.assert_close(result[0].cpu(), expected)
    for mine, theirs in zip(gradients([result[0]], there), gradients([expected], inputs), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_dropout_is_repeated_by_the_seed_of_the_process():
    there = on_npu([t.detach() for t in tensors()])
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(npu.npu_fusion_attention(*there, N, "BNSD", keep_prob=0.5)[0].cpu())
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_a_dropout_mask_can_be_given():
    q, k, v = (t.detach() for t in tensors())
    num = B * N * S * S
    mask = npu._npu_dropout_gen_mask(torch.empty(0).npu(), [num], 0.4, 5, 0)
    found = npu.npu_fusion_attention(q.npu(), k.npu(), v.npu(), N, "BNSD", keep_prob=0.6, dropout_mask=mask, seed=5)
    kept = bits(mask.cpu(), num).view(B, N, S, S)
    torch.testing.assert_close(found[0].cpu(), attention(q, k, v, kept=kept, keep_prob=0.6))


QUERIES, KEYS = (3, 0, 2, 4), (3, 2, 2, 6)


def ends(sizes):
    return [sum(sizes[: i + 1]) for i in range(len(sizes))]


def packed(rule=None):
    """Reference of TND: attention within each sequence. rule(sequence, i, j, shift) says what is seen."""

    def compute(q, k, v):
        parts = []
        for b, (n, m) in enumerate(zip(QUERIES, KEYS, strict=True)):
            i, j = sum(QUERIES[:b]), sum(KEYS[:b])
            one = [t.transpose(0, 1).unsqueeze(0) for t in (q[i : i + n], k[j : j + m], v[j : j + m])]
            seen = None if rule is None else (lambda _, r, c, b=b, s=m - n: rule(b, r, c, s))
            if n:
                parts.append(attention(*one, visible=seen, scale=0.4).squeeze(0).transpose(0, 1))
        return torch.cat(parts)

    return compute


@pytest.mark.parametrize(
    ("mode", "rule", "more"),
    [
        (0, None, {}),
        (2, lambda b, i, j, s: j <= i, {}),
        (3, lambda b, i, j, s: j <= i + s, {}),
        (4, lambda b, i, j, s: i + s - 1 <= j <= i + s, {"pre_tockens": 1, "next_tockens": 0}),
        (
            7,
            lambda b, i, j, s: i + s - 9 <= j <= i + s - 1 if b == 3 else j <= i + s,
            {"pre_tockens": 9, "next_tockens": -1},
        ),
        (
            8,
            lambda b, i, j, s: i + s - 9 <= j <= i + s + 1 if b == 0 else j <= i,
            {"pre_tockens": 9, "next_tockens": 1},
        ),
    ],
)
def test_packed_sequences(mode, rule, more):
    mask = None if rule is None else TRIANGLE.npu()

    def operator(q, k, v):
        return npu.npu_fusion_attention(
            q,
            k,
            v,
            N,
            "TND",
            atten_mask=mask,
            scale=0.4,
            sparse_mode=mode,
            actual_seq_qlen=ends(QUERIES),
            actual_seq_kvlen=ends(KEYS),
            **more,
        )[0]

    same(operator, packed(rule), leaf(9, N, D), leaf(13, 2, D), leaf(13, 2, D))


def test_packed_sequences_with_dropout_take_their_bits_in_turn():
    q, k, v = (t.detach() for t in (leaf(9, N, D), leaf(13, N, D), leaf(13, N, D)))
    result = npu.npu_fusion_attention(
        q.npu(), k.npu(), v.npu(), N, "TND", keep_prob=0.6, actual_seq_qlen=ends(QUERIES), actual_seq_kvlen=ends(KEYS)
    )
    assert result[6] == N * sum(a * b for a, b in zip(QUERIES, KEYS, strict=True))
    mask = npu._npu_dropout_gen_mask(torch.empty(0).npu(), [result[6]], 0.4, result[4], 0)
    kept = bits(mask.cpu(), result[6])
    first = attention(
        *(t[:3].transpose(0, 1).unsqueeze(0) for t in (q, k, v)), kept=kept[: N * 9].view(1, N, 3, 3), keep_prob=0.6
    )
    torch.testing.assert_close(result[0][:3].cpu(), first.squeeze(0).transpose(0, 1))


def test_statistics_of_packed_sequences_have_heads_first_unless_asked():
    q = torch.randn(9, N, D)
    lengths = {"actual_seq_qlen": [4, 9], "actual_seq_kvlen": [4, 9]}
    plain = npu.npu_fusion_attention(q.npu(), q.npu(), q.npu(), N, "TND", **lengths)[1].cpu()
    tokens = npu.npu_fusion_attention(q.npu(), q.npu(), q.npu(), N, "TND", softmax_layout="TND", **lengths)[1].cpu()
    top = [torch.einsum("ind,jnd->inj", part, part).amax(-1) for part in (q[:4], q[4:])]
    torch.testing.assert_close(tokens[..., 0], torch.cat(top))
    torch.testing.assert_close(plain[..., 0].flatten(), torch.cat([part.t().flatten() for part in top]))


def test_sequences_left_out_at_the_end_are_zero():
    q = torch.randn(5, N, D)
    found = npu.npu_fusion_attention(
        q.npu(), q.npu(), q.npu(), N, "TND", actual_seq_qlen=[3, 0, 0], actual_seq_kvlen=[3, 0, 0]
    )[0].cpu()
    assert found[3:].abs().sum() == 0
    assert found[:3].abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bit_attention_keeps_its_dtype_and_precision(dtype):
    q, k, v = (t.detach().to(dtype) for t in tensors())
    found = npu.npu_fusion_attention(q.npu(), k.npu(), v.npu(), N, "BNSD", scale=0.3)[0]
    assert found.dtype == dtype
    torch.testing.assert_close(found.cpu(), attention(q, k, v, scale=0.3), rtol=0, atol=torch.finfo(dtype).eps)


def test_gradients_by_finite_differences():
    q, k, v = (t.detach() for t in tensors())
    mask = (torch.rand(S, S) > 0.7).npu()
    mask[:, 0] = False
    seed = torch.randn(B, N, S, D)

    def loss(q, k, v):
        found = npu.npu_fusion_attention(
            q.npu(), k.npu(), v.npu(), N, "BNSD", atten_mask=mask, sparse_mode=1, scale=0.5
        )
        return (found[0].cpu().double() * seed).sum()

    there = on_npu([t.requires_grad_() for t in (q, k, v)])
    out = npu.npu_fusion_attention(*there, N, "BNSD", atten_mask=mask, sparse_mode=1, scale=0.5)[0]
    found = torch.autograd.grad(out, there, seed.npu())
    for position, tensor in enumerate((q, k, v)):
        step = torch.randn_like(tensor) * 1e-2
        inputs = [t.detach() for t in (q, k, v)]
        up, down = list(inputs), list(inputs)
        up[position], down[position] = inputs[position] + step, inputs[position] - step
        measured = (loss(*up) - loss(*down)) / 2
        assert measured == pytest.approx(float((found[position].cpu().double() * step).sum()), rel=2e-3, abs=2e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input_layout": "BDSN"}, "input_layout must be one of BSH, SBH, BSND, BNSD, TND"),
        ({"head_num": 0}, "head_num must be greater than 0"),
        ({"head_num": 3}, "head_num=3 heads"),
        ({"keep_prob": 0.0}, r"keep_prob must be in the range \(0, 1\]"),
        ({"sparse_mode": 7}, "sparse_mode with BNSD"),
        ({"softmax_layout": "TND"}, "needs input_layout TND"),
        ({"atten_mask": torch.ones(4, 4, dtype=torch.bool), "sparse_mode": 2}, r"must be \(2048, 2048\)"),
        ({"atten_mask": TRIANGLE.t().contiguous(), "sparse_mode": 3}, "must be 1 above the diagonal"),
    ],
)
def test_what_the_operator_does_not_take(change, message):
    q = torch.randn(B, N, S, D).npu()
    arguments = {"head_num": N, "input_layout": "BNSD", **change}
    arguments = {name: v.npu() if isinstance(v, torch.Tensor) else v for name, v in arguments.items()}
    with pytest.raises(RuntimeError, match=message):
        npu.npu_fusion_attention(q, q, q, **arguments)


def test_dtypes_it_does_not_take():
    q = torch.randn(B, N, S, D).npu()
    with pytest.raises(RuntimeError, match="float64"):
        npu.npu_fusion_attention(q.double(), q.double(), q.double(), N, "BNSD")
    with pytest.raises(RuntimeError, match="must have one dtype"):
        npu.npu_fusion_attention(q.half(), q, q, N, "BNSD")
    with pytest.raises(RuntimeError, match="actual_seq_qlen"):
        npu.npu_fusion_attention(q[0], q[0], q[0], S, "TND")


def test_parts_that_are_not_established_are_refused():
    q = torch.randn(B, N, S, D).npu()
    with pytest.raises(NotImplementedError, match="sink"):
        npu.npu_fusion_attention(q, q, q, N, "BNSD", sink=torch.zeros(N).npu())
    with pytest.raises(NotImplementedError, match="makes itself"):
        npu.npu_fusion_attention_v2(q, q, q, N, "BNSD", pse=torch.zeros(N).npu(), pse_type=2)


def halves(keys=S, heads=N):
    return [t.detach().half() for t in tensors(keys=keys, heads=heads)]


CLOSE = {"rtol": 2e-3, "atol": 2e-3}


@pytest.mark.parametrize("layout", ["BSH", "BSND", "BNSD", "BNSD_BSND"])
def test_prompt_attention_over_the_lengths_of_sequences(layout):
    q, k, v = halves(heads=2)
    given = [laid_out(t, layout).contiguous().npu() for t in (q, k, v)]
    found = npu.npu_prompt_flash_attention(
        *given,
        num_heads=N,
        num_key_value_heads=2,
        input_layout=layout,
        scale_value=0.3,
        actual_seq_lengths=[4, 6],
        actual_seq_lengths_kv=[3, 6],
    )
    expected = attention(q, k, v, scale=0.3, visible=lambda b, i, j: j < (3, 6)[b])
    expected[0, :, 4:] = 0
    torch.testing.assert_close(found.cpu(), laid_out(expected, layout.split("_")[-1]), **CLOSE)


@pytest.mark.parametrize("mode", [0, 2, 3, 4])
def test_prompt_attention_with_masks(mode):
    q, k, v = halves(keys=8)
    rules = {
        0: lambda b, i, j: j <= i,
        2: lambda b, i, j: j <= i,
        3: lambda b, i, j: j <= i + 2,
        4: lambda b, i, j: i <= j <= i + 2,
    }
    mask = ~torch.ones(S, 8, dtype=torch.bool).tril() if mode == 0 else TRIANGLE
    found = npu.npu_prompt_flash_attention(
        q.npu(),
        k.npu(),
        v.npu(),
        num_heads=N,
        input_layout="BNSD",
        atten_mask=mask.npu(),
        sparse_mode=mode,
        pre_tokens=2 if mode == 4 else 2147483647,
        next_tokens=0,
    )
    torch.testing.assert_close(found.cpu(), attention(q, k, v, visible=rules[mode]), **CLOSE)


def paged(cache, table, size, layout):
    """Cut (B, N, S, D) into blocks in the order of a table."""
    blocks = torch.zeros(int(table.max()) + 1, cache.shape[1], size, cache.shape[3], dtype=cache.dtype)
    for b in range(table.shape[0]):
        for place, block in enumerate(table[b].tolist()):
            part = cache[b, :, place * size : (place + 1) * size]
            blocks[block, :, : part.shape[1]] = part
    return blocks if layout == "BNSD" else blocks.transpose(1, 2).flatten(2)


@pytest.mark.parametrize("layout", ["BSH", "BNSD"])
def test_incremental_attention_over_pages(layout):
    q, (k, v) = torch.randn(B, N, 1, D).half(), halves(keys=8, heads=2)[1:]
    table = torch.tensor([[3, 0], [1, 2]], dtype=torch.int32)
    blocks = [paged(t, table, 4, layout).npu() for t in (k, v)]
    found = npu.npu_incre_flash_attention(
        laid_out(q, layout).contiguous().npu(),
        *blocks,
        num_heads=N,
        num_key_value_heads=2,
        input_layout=layout,
        scale_value=0.3,
        block_table=table.npu(),
        block_size=4,
        actual_seq_lengths=[5, 8],
    )
    expected = attention(q, k, v, scale=0.3, visible=lambda b, i, j: j < (5, 8)[b])
    torch.testing.assert_close(found.cpu(), laid_out(expected, layout), **CLOSE)


def test_incremental_attention_takes_one_position():
    q, k, v = (t.npu() for t in halves())
    with pytest.raises(RuntimeError, match="one position"):
        npu.npu_incre_flash_attention(q, k, v, num_heads=N, input_layout="BNSD")


@pytest.mark.parametrize("version", [1, 2])
def test_fused_inference_attention_and_its_log_sum_exp(version):
    q, k, v = halves(keys=8)
    mask = ~torch.ones(S, 8, dtype=torch.bool).tril()
    inputs = [t.npu() for t in (q, k, v)]
    if version == 1:
        found = npu.npu_fused_infer_attention_score(
            *inputs, num_heads=N, scale=0.3, input_layout="BNSD", atten_mask=mask.npu(), softmax_lse_flag=True
        )
        plain = npu.npu_fused_infer_attention_score(*inputs, num_heads=N, input_layout="BNSD")
    else:
        found = npu.npu_fused_infer_attention_score_v2(
            *inputs,
            num_query_heads=N,
            softmax_scale=0.3,
            input_layout="BNSD",
            atten_mask=mask.npu(),
            return_softmax_lse=True,
        )
        plain = npu.npu_fused_infer_attention_score_v2(*inputs, num_query_heads=N, input_layout="BNSD")
    expected = attention(q, k, v, scale=0.3, visible=lambda b, i, j: j <= i)
    torch.testing.assert_close(found[0].cpu(), expected, **CLOSE)
    scores = (q.float() @ k.float().transpose(-1, -2) * 0.3).masked_fill(mask, -math.inf)
    torch.testing.assert_close(found[1].cpu(), scores.logsumexp(-1, keepdim=True))
    assert plain[1].numel() == 0


def test_fused_inference_attention_of_packed_sequences():
    q, k = torch.randn(9, N, D).half(), torch.randn(13, N, D).half()
    found = npu.npu_fused_infer_attention_score(
        q.npu(),
        k.npu(),
        k.npu(),
        num_heads=N,
        scale=0.4,
        input_layout="TND",
        atten_mask=TRIANGLE.npu(),
        sparse_mode=3,
        actual_seq_lengths=ends(QUERIES),
        actual_seq_lengths_kv=ends(KEYS),
        softmax_lse_flag=True,
    )
    expected = packed(lambda b, i, j, s: j <= i + s)(q, k, k)
    torch.testing.assert_close(found[0].cpu(), expected, **CLOSE)
    assert tuple(found[1].shape) == (9, N, 1)


def test_quantised_keys_are_refused():
    q, k, v = (t.npu() for t in halves())
    with pytest.raises(NotImplementedError, match="key_antiquant_scale"):
        npu.npu_fused_infer_attention_score(
            q, k, v, num_heads=N, input_layout="BNSD", key_antiquant_scale=torch.ones(1).npu()
        )


@pytest.mark.parametrize("layout", ["SBH", "TND"])
def test_attention_over_two_halves_of_the_keys_merges_to_the_whole(layout):
    q, k, v = (t.detach() for t in tensors(keys=8))
    if layout == "TND":
        q, k, v = (t[:1] for t in (q, k, v))
        arranged = [t.squeeze(0).transpose(0, 1).contiguous().npu() for t in (q, k, v)]
    else:
        arranged = [laid_out(t, "SBH").contiguous().npu() for t in (q, k, v)]

    def part(start, end):
        more = {}
        if layout == "TND":
            more = {"actual_seq_qlen": [S], "actual_seq_kvlen": [end - start], "softmax_layout": "TND"}
        query, key, value = arranged[0], arranged[1][start:end], arranged[2][start:end]
        return npu.npu_fusion_attention(query, key, value, N, layout, scale=0.4, **more)

    whole, first, second = part(0, 8), part(0, 3), part(3, 8)
    options = {"input_layout": layout}
    if layout == "TND":
        options |= {"actual_seq_qlen": torch.tensor([0, S]).npu(), "input_softmax_layout": "TND"}
    merged = npu.npu_ring_attention_update(*first[:3], *second[:3], **options)
    for mine, theirs in zip(merged, whole, strict=False):
        torch.testing.assert_close(mine.cpu(), theirs.cpu())


def test_attentions_merge_by_their_log_sum_exp():
    q, k, v = (t.detach()[0, 0] for t in tensors(keys=8))
    parts = [(slice(0, 3)), slice(3, 8)]
    scores = [q @ k[part].t() for part in parts]
    lse = [s.logsumexp(-1) for s in scores]
    outs = [torch.softmax(s, -1) @ v[part] for s, part in zip(scores, parts, strict=True)]
    found = npu.npu_attention_update([t.npu() for t in lse], [t.npu() for t in outs], 1)
    torch.testing.assert_close(found[0].cpu(), torch.softmax(q @ k.t(), -1) @ v)
    torch.testing.assert_close(found[1].cpu(), (q @ k.t()).logsumexp(-1))
    assert npu.npu_attention_update([t.npu() for t in lse], [t.npu() for t in outs], 0)[1].numel() == 0


def test_tokens_outside_the_greatest_and_the_nucleus_are_cut_off():
    logits = torch.log(torch.tensor([[0.1, 0.4, 0.2, 0.3], [0.97, 0.01, 0.01, 0.01]]))
    found = npu.npu_top_k_top_p(logits.npu(), torch.tensor([0.6, 0.5]).npu(), torch.tensor([3, 4]).npu()).cpu()
    kept = [[False, True, False, True], [True, False, False, False]]
    assert torch.isfinite(found).tolist() == kept
    torch.testing.assert_close(found[torch.tensor(kept)], logits[torch.tensor(kept)])
    by_k = npu.npu_top_k_top_p(logits[:1].npu(), None, torch.tensor([2]).npu()).cpu()
    assert torch.isfinite(by_k).tolist() == [[False, True, False, True]]
