"""Mixture of experts: gating, routing and grouped matrix products, token by token against loops."""

from __future__ import annotations

import pytest
import torch
from custom_reference import leaf, on_npu, same

from jumar.device import DevicePlan, activate

activate(DevicePlan(real="never", numerics="exact", unsupported="fallback"))

npu = torch.ops.npu


def test_gating_by_softmax():
    x, finished = torch.randn(5, 8), torch.tensor([False, True, False, False, False])
    values, experts, rows = (t.cpu() for t in npu.npu_moe_gating_top_k_softmax(x.npu(), finished.npu(), 3))
    expected = torch.softmax(x, -1).topk(3)
    torch.testing.assert_close(values, expected.values)
    chosen = expected.indices.int()
    chosen[1] = 8
    assert torch.equal(experts, chosen)
    assert rows.tolist() == [[i + 5 * j for j in range(3)] for i in range(5)]
    assert (experts.dtype, rows.dtype) == (torch.int32, torch.int32)


def gate(logits, k, bias, groups, k_group, mode, norm, factor):
    """DeepSeek's gate for one token at a time."""
    weights, experts = [], []
    for row in logits:
        scores = torch.softmax(row, 0) if norm == 0 else torch.sigmoid(row)
        choice = scores.detach() + bias
        size = len(row) // groups
        merits = [
            part.max() if mode == 0 else part.sort(descending=True).values[:2].sum() for part in choice.split(size)
        ]
        best = sorted(range(groups), key=lambda g: -merits[g])[:k_group] if groups > 1 else [0]
        allowed = [e for e in range(len(row)) if groups == 1 or e // size in best]
        chosen = sorted(allowed, key=lambda e: -choice[e])[:k]
        found = torch.stack([scores[e] for e in chosen])
        weights.append((found / (found.sum() + 1e-20) if norm == 1 else found) * factor)
        experts.append(chosen)
    return torch.stack(weights), torch.tensor(experts, dtype=torch.int32)


@pytest.mark.parametrize("norm", [0, 1])
@pytest.mark.parametrize(("groups", "k_group", "mode"), [(1, 1, 0), (4, 2, 0), (4, 2, 1)])
def test_gating_by_groups(norm, groups, k_group, mode):
    x, bias = leaf(6, 16), torch.randn(16) * 0.1
    expected = gate(x, 3, bias, groups, k_group, mode, norm, 2.5)
    options = {"k_group": k_group, "group_count": groups, "group_select_mode": mode, "norm_type": norm}

    def operator(logits):
        return npu.npu_moe_gating_top_k(logits, 3, bias=bias.npu(), routed_scaling_factor=2.5, **options)[0]

    same(operator, lambda _: gate(x, 3, bias, groups, k_group, mode, norm, 2.5)[0], x)
    found = npu.npu_moe_gating_top_k(on_npu(x), 3, bias=bias.npu(), out_flag=True, **options)
    assert torch.equal(found[1].cpu(), expected[1])
    scores = torch.softmax(x, -1) if norm == 0 else torch.sigmoid(x)
    torch.testing.assert_close(found[2].cpu(), scores.detach())


@pytest.mark.parametrize("norm", [0, 1])
def test_gating_backward_operator(norm):
    x, seed = leaf(6, 8), torch.randn(6, 3)
    weights, experts = gate(x, 3, torch.zeros(8), 1, 1, 0, norm, 2.0)
    expected = torch.autograd.grad(weights, x, seed)[0]
    scores = (torch.softmax(x, -1) if norm == 0 else torch.sigmoid(x)).detach()
    found = npu.npu_moe_gating_top_k_backward(
        scores.npu(), seed.npu(), experts.npu(), norm_type=norm, routed_scaling_factor=2.0
    )
    torch.testing.assert_close(found.cpu(), expected)


def routed(num_rows=4, k=2, experts=3, hidden=5):
    x = torch.randn(num_rows, hidden)
    expert = torch.randint(0, experts, (num_rows, k), dtype=torch.int32)
    rows = torch.arange(num_rows * k, dtype=torch.int32).view(k, num_rows).t().contiguous()
    return x, rows, expert


def test_routing_forth_and_back_is_a_weighted_sum():
    x, rows, expert = routed()
    expanded, places, sorted_experts = npu.npu_moe_init_routing(x.npu(), rows.npu(), expert.npu(), 4)
    assert sorted_experts.tolist() == sorted(expert.flatten().tolist())
    for j in range(2):
        for i in range(4):
            place = int(places[j * 4 + i])
            assert torch.equal(expanded[place].cpu(), x[i])
            assert int(sorted_experts[place]) == int(expert[i, j])
    scales, bias, skip = torch.rand(4, 2), torch.randn(3, 5), torch.randn(4, 5)
    found = npu.npu_moe_finalize_routing(expanded * 2, skip.npu(), None, bias.npu(), scales.npu(), places, expert.npu())
    expected = skip + sum(scales[:, j : j + 1] * (2 * x + bias[expert[:, j].long()]) for j in range(2))
    torch.testing.assert_close(found.cpu(), expected)


def test_only_active_rows_are_expanded():
    x, rows, expert = routed()
    expanded, places, _ = npu.npu_moe_init_routing(x.npu(), rows.npu(), expert.npu(), 3)
    assert (tuple(expanded.shape), places.numel()) == ((6, 5), 8)


def test_dropped_rows_add_their_bias_only():
    expanded, places = torch.randn(2, 3), torch.tensor([1, -1], dtype=torch.int32)
    found = npu.npu_moe_finalize_routing(expanded.npu(), None, None, None, None, places.npu(), None)
    torch.testing.assert_close(found.cpu(), torch.stack([expanded[1], torch.zeros(3)]))


def test_ends_of_groups():
    sorted_experts = torch.tensor([0, 0, 1, 3, 3, 3], dtype=torch.int32)
    found = npu.npu_moe_compute_expert_tokens(sorted_experts.npu(), 5)
    assert (found.tolist(), found.dtype) == ([2, 3, 3, 6, 6], torch.int32)


def test_re_routing_orders_by_expert_then_rank():
    counts = torch.tensor([[1, 2], [2, 1]])
    tokens = torch.arange(6.0).view(6, 1)
    found = npu.npu_moe_re_routing(tokens.npu(), counts.npu(), per_token_scales=tokens.flatten().npu())
    assert found[0].flatten().tolist() == found[1].tolist() == found[2].tolist() == [0, 3, 4, 1, 2, 5]
    assert found[3].tolist() == [3, 3]


@pytest.mark.parametrize("k", [1, 2])
def test_tokens_are_permuted_to_experts_and_back(k):
    tokens, probs = leaf(5, 3), torch.rand(5, k, requires_grad=True)
    indices = torch.randint(0, 4, (5, k), dtype=torch.int32)
    order = torch.argsort(indices.flatten(), stable=True)

    def permute(x):
        return npu.npu_moe_token_permute(x, indices.npu())[0]

    same(permute, lambda x: torch.stack([x[i // k] for i in order.tolist()]), tokens)
    _, places = npu.npu_moe_token_permute(on_npu(tokens), indices.npu())
    assert [int(indices.flatten()[i]) for i in order] == sorted(indices.flatten().tolist())
    assert all(order[int(place)] == choice for choice, place in enumerate(places))

    def there_and_back(x, p):
        moved, where = npu.npu_moe_token_permute(x, indices.npu())
        return npu.npu_moe_token_unpermute(moved * 3, where, p)

    same(there_and_back, lambda x, p: 3 * x * p.sum(1, keepdim=True), tokens, probs)
    assert places.dtype == torch.int32


def test_tokens_beyond_the_number_wanted_are_dropped():
    tokens, indices = torch.randn(4, 3), torch.tensor([[2], [0], [1], [0]])
    permuted, places = npu.npu_moe_token_permute(tokens.npu(), indices.npu(), 3)
    torch.testing.assert_close(permuted.cpu(), tokens[[1, 3, 2]])
    expected = tokens.clone()
    expected[0] = 0
    torch.testing.assert_close(npu.npu_moe_token_unpermute(permuted, places).cpu(), expected)


def test_padded_tokens():
    tokens, indices = torch.randn(4, 3), torch.tensor([[0, 2], [3, 2]])
    permuted, places = npu.npu_moe_token_permute(tokens.npu(), indices.npu(), None, True)
    torch.testing.assert_close(permuted.cpu(), tokens[[0, 2, 3, 2]])
    back = npu.npu_moe_token_unpermute(permuted, places, torch.ones(2, 2).npu(), True, [4, 3])
    expected = tokens * torch.tensor([[1.0], [0.0], [2.0], [1.0]])
    torch.testing.assert_close(back.cpu(), expected)


def test_a_routing_map():
    tokens, probs = leaf(5, 3), torch.rand(5, 4, requires_grad=True)
    routing = torch.zeros(5, 4, dtype=torch.int8)
    for i in range(5):
        routing[i, torch.randperm(4)[:2]] = 1
    pairs = [(i, e) for e in range(4) for i in range(5) if routing[i, e]]

    def permute(x, p):
        return npu.npu_moe_token_permute_with_routing_map(x, routing.npu(), probs=p, num_out_tokens=10)[:2]

    def reference(x, p):
        return torch.stack([x[i] for i, _ in pairs]), torch.stack([p[i, e] for i, e in pairs])

    same(permute, reference, tokens, probs)

    def there_and_back(x, p):
        moved, _, where = npu.npu_moe_token_permute_with_routing_map(x, routing.npu(), num_out_tokens=10)
        return npu.npu_moe_token_unpermute_with_routing_map(moved, where, [5, 3], probs=p, routing_map=routing.npu())

    same(there_and_back, lambda x, p: x * (p * routing).sum(1, keepdim=True), tokens, probs)


def test_a_routing_map_with_a_capacity():
    tokens, probs = leaf(4, 3), torch.rand(4, 2, requires_grad=True)
    routing = torch.tensor([[1, 0], [0, 1], [1, 1], [1, 0]], dtype=torch.int8)

    def there_and_back(x, p):
        moved, chosen, where = npu.npu_moe_token_permute_with_routing_map(
            x, routing.npu(), probs=p, num_out_tokens=4, drop_and_pad=True
        )
        assert where.tolist() == [0, 2, 1, 2]
        return (
            npu.npu_moe_token_unpermute_with_routing_map(
                moved, where, [4, 3], probs=p, routing_map=routing.npu(), drop_and_pad=True
            ),
            chosen,
        )

    def reference(x, p):
        kept = torch.tensor([[1.0, 0], [0, 1], [1, 1], [0, 0]])
        return x * (p * kept).sum(1, keepdim=True), torch.stack([p[0, 0], p[2, 0], p[1, 1], p[2, 1]])

    same(there_and_back, reference, tokens, probs)


@pytest.mark.parametrize("sizes", [False, True])
@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("split_item", [0, 3])
def test_grouped_products_of_rows(sizes, stacked, split_item):
    x, weights, bias = torch.randn(6, 4), torch.randn(3, 4, 5), torch.randn(3, 5)
    counts, ends = [2, 0, 4], [2, 2, 6]
    expected = torch.cat(
        [x[e - c : e] @ weights[i] + bias[i] for i, (c, e) in enumerate(zip(counts, ends, strict=True))]
    )
    weight = [weights.npu()] if stacked else [w.contiguous().npu() for w in weights]
    biases = [bias.npu()] if stacked else [b.npu() for b in bias]
    found = npu.npu_grouped_matmul(
        [x.npu()],
        weight,
        bias=biases,
        group_list=torch.tensor(counts if sizes else ends).npu(),
        split_item=split_item,
        group_type=0,
        group_list_type=int(sizes),
    )
    assert len(found) == (1 if split_item == 3 else 3)
    torch.testing.assert_close(torch.cat([t.cpu() for t in found]), expected)


def test_grouped_products_of_lists_and_of_the_shared_dimension():
    xs, weights = [torch.randn(2, 4), torch.randn(3, 4)], [torch.randn(4, 5), torch.randn(4, 2)]
    found = npu.npu_grouped_matmul([t.npu() for t in xs], [t.npu() for t in weights], split_item=0, group_type=-1)
    for mine, a, b in zip(found, xs, weights, strict=True):
        torch.testing.assert_close(mine.cpu(), a @ b)
    x, weight = torch.randn(3, 6), torch.randn(6, 5)
    found = npu.npu_grouped_matmul(
        [x.npu()], [weight.npu()], group_list=torch.tensor([2, 6]).npu(), split_item=3, group_type=2
    )
    torch.testing.assert_close(found[0].cpu(), torch.stack([x[:, :2] @ weight[:2], x[:, 2:] @ weight[2:]]))


def test_grouped_products_with_a_list_of_ends():
    x, weights = torch.randn(5, 4), torch.randn(2, 4, 3)
    found = npu.npu_grouped_matmul.List([x.npu()], [w.npu() for w in weights], group_list=[1, 5], split_item=1)
    torch.testing.assert_close(torch.cat([t.cpu() for t in found]), torch.cat([x[:1] @ weights[0], x[1:] @ weights[1]]))


def test_grouped_products_of_int8():
    x = torch.randint(-128, 128, (5, 4), dtype=torch.int8)
    weights = torch.randint(-128, 128, (2, 4, 3), dtype=torch.int8)
    scale, tokens = torch.rand(2, 3) * 1e-2, torch.rand(5)
    found = npu.npu_grouped_matmul(
        [x.npu()],
        [weights.npu()],
        scale=[scale.npu()],
        per_token_scale=[tokens.npu()],
        group_list=torch.tensor([2, 5]).npu(),
        split_item=3,
        group_type=0,
        output_dtype=torch.float16,
    )[0]
    groups = [0, 0, 1, 1, 1]
    rows = [(x[i].long() @ weights[g].long()).float() * scale[g] * tokens[i] for i, g in enumerate(groups)]
    assert torch.equal(found.cpu(), torch.stack(rows).half())


def test_a_feed_forward_layer_with_experts():
    x, first, second = torch.randn(5, 4).half(), torch.randn(2, 4, 6).half(), torch.randn(2, 6, 3).half()
    bias = torch.randn(2, 6).half()
    expected = torch.cat(
        [
            torch.relu(part.double() @ first[e].double() + bias[e].double()) @ second[e].double()
            for e, part in enumerate(x.split([2, 3]))
        ]
    )
    for tokens in ({"expert_tokens": [2, 3]}, {"expert_tokens_index": [2, 5]}):
        found = npu.npu_ffn(x.npu(), first.npu(), second.npu(), "relu", bias1=bias.npu(), **tokens)
        torch.testing.assert_close(found.cpu().double(), expected, rtol=4e-3, atol=4e-3)
    single = npu.npu_ffn(x.npu(), first[0].npu(), second[0].npu(), "silu").cpu().double()
    inner = torch.nn.functional.silu(x.double() @ first[0].double())
    torch.testing.assert_close(single, inner @ second[0].double(), rtol=4e-3, atol=4e-3)
    with pytest.raises(NotImplementedError, match="geglu"):
        npu.npu_ffn(x.npu(), first[0].npu(), second[0].npu(), "geglu")


@pytest.mark.parametrize("renorm", [0, 1])
def test_second_version_of_gating_by_softmax(renorm):
    x = torch.randn(5, 8)
    values, experts, everything = npu.npu_moe_gating_top_k_softmax_v2(x.npu(), k=3, renorm=renorm, output_softmax=True)
    top = x.topk(3)
    expected = torch.softmax(top.values, -1) if renorm else torch.softmax(x, -1).gather(1, top.indices)
    torch.testing.assert_close(values.cpu(), expected)
    assert torch.equal(experts.cpu(), top.indices.int())
    assert everything.numel() == (0 if renorm else 40)


@pytest.mark.parametrize("by_row", [0, 1])
def test_routing_to_some_of_the_experts(by_row):
    x, expert = torch.randn(4, 3), torch.tensor([[0, 5], [2, 1], [5, 2], [1, 3]], dtype=torch.int32)
    expanded, rows, counts, _ = npu.npu_moe_init_routing_v2(
        x.npu(),
        expert.npu(),
        expert_num=6,
        active_expert_range=[1, 4],
        expert_tokens_num_type=1,
        expert_tokens_num_flag=True,
        row_idx_type=by_row,
    )
    order = [3, 6, 2, 5, 7]  # choices of the experts 1, 1, 2, 2 and 3
    assert counts.tolist() == [2, 2, 1]
    torch.testing.assert_close(expanded[:5].cpu(), x[[choice // 2 for choice in order]])
    assert expanded[5:].abs().sum() == 0
    if by_row:
        assert rows.tolist()[:5] == order
    else:
        assert rows.tolist() == [order.index(c) if c in order else -1 for c in range(8)]


def test_routing_that_quantises_tokens():
    x, expert = torch.randn(4, 8).half(), torch.tensor([[1], [0], [1], [0]], dtype=torch.int32)
    expanded, _, ends, scales = npu.npu_moe_init_routing_v2(
        x.npu(), expert.npu(), expert_num=2, active_expert_range=[0, 2], expert_tokens_num_flag=True, quant_mode=1
    )
    sorted_x = x[[1, 3, 0, 2]].float()
    steps = sorted_x.abs().amax(-1) / 127
    assert torch.equal(expanded.cpu(), (sorted_x / steps.unsqueeze(1)).round().to(torch.int8))
    torch.testing.assert_close(scales.cpu(), steps)
    assert ends.tolist() == [2, 4]


@pytest.mark.parametrize("kept", [None, 6])
def test_backward_operators_of_permutation_can_be_called_by_name(kept):
    tokens, probs = leaf(5, 3), torch.rand(5, 2, requires_grad=True)
    indices = torch.randint(0, 4, (5, 2), dtype=torch.int32)
    order = torch.argsort(indices.flatten(), stable=True)[:kept]
    seed = torch.randn(len(order), 3)
    expected = torch.autograd.grad(tokens[order // 2], tokens, seed)[0]
    _, places = npu.npu_moe_token_permute(on_npu(tokens), indices.npu(), kept)
    found = npu.npu_moe_token_permute_grad_v2(seed.npu(), places, 5, torch.float32, 2)
    torch.testing.assert_close(found.cpu(), expected)
    found = npu.npu_moe_token_permute_grad(on_npu(tokens), seed.npu(), indices.npu(), places)
    torch.testing.assert_close(found.cpu(), expected)

    permuted, seed = leaf(len(order), 3), torch.randn(5, 3)
    inside = torch.zeros(10, 3).index_copy(0, order, permuted).view(5, 2, 3)
    expected = torch.autograd.grad((inside * probs.unsqueeze(-1)).sum(1), (permuted, probs), seed)
    found = npu.npu_moe_token_unpermute_grad(on_npu(permuted), seed.npu(), places, on_npu(probs))
    again = npu.npu_moe_token_unpermute_grad_v2(
        seed.npu(), places, len(order), torch.float32, on_npu(probs), permuted_tokens=on_npu(permuted)
    )
    for mine, other, theirs in zip(found, again, expected, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs)
        assert torch.equal(mine.cpu(), other.cpu())


def test_gradients_of_grouped_weights_are_accumulated():
    y, x, weight = torch.randn(8, 5), torch.randn(6, 4).half(), torch.randn(6, 5).half()
    groups = [(0, 2), (2, 6)]
    expected = y + torch.cat([x[a:b].float().t() @ weight[a:b].float() for a, b in groups])
    target = y.npu()
    found = npu.npu_grouped_matmul_add(target, x.npu(), weight.npu(), torch.tensor([2, 6]).npu())
    torch.testing.assert_close(found.cpu(), expected)
    npu.npu_grouped_matmul_add_(target, x.npu(), weight.npu(), torch.tensor([2, 4]).npu(), group_list_type=1)
    torch.testing.assert_close(target.cpu(), expected)
