"""flash-attention: what its calls become, and what is told to use in place of the others, calculates the same."""

from __future__ import annotations

import pytest
import torch
from counterpart_cases import assert_same, attention, converted, leaves, messages, run, window

SHAPES = [(2, 5, 5, 3, 3, 8), (1, 7, 7, 4, 2, 16), (2, 3, 9, 6, 1, 4), (1, 1, 13, 2, 2, 5), (3, 17, 31, 4, 4, 7)]
"""batch, rows, columns, heads of q, heads of k and v, dim"""

CALLS = [
    ("", -1, -1, None),
    ("causal=True", -1, 0, None),
    ("softmax_scale=0.3", -1, -1, 0.3),
    ("0.0, 0.3, True", -1, 0, 0.3),
    ("dropout_p=0.0, causal=True, window_size=(-1, -1), deterministic=True", -1, 0, None),
    ("window_size=(3, 0)", 3, 0, None),
    ("causal=True, window_size=(2, 0)", 2, 0, None),
    ("causal=True, window_size=(2, 5)", 2, 0, None),
    ("window_size=(2, 3), softmax_scale=0.2", 2, 3, 0.2),
    ("window_size=(-1, 1), softcap=0.0, alibi_slopes=None", -1, 1, None),
    ("window_size=(4, -1), return_attn_probs=False", 4, -1, None),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("arguments", "left", "right", "scale"), CALLS)
def test_flash_attn_func(arguments: str, left: int, right: int, scale: float | None, shape: tuple[int, ...]) -> None:
    batch, rows, columns, heads, groups, dim = shape
    source = "from flash_attn import flash_attn_func\nq, k, v = q.cuda(), k.cuda(), v.cuda()\n"
    text = converted(f"{source}out = flash_attn_func(q, k, v{', ' if arguments else ''}{arguments})\n")
    q, k, v = leaves((batch, rows, heads, dim), (batch, columns, groups, dim), (batch, columns, groups, dim))
    expected = attention(q, k, v, scale=scale, hidden=window(rows, columns, left, right))
    assert_same(run(text, q=q, k=k, v=v)["out"], expected, [q, k, v])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(2, 5, 3, 8), (1, 13, 1, 5)])
def test_flash_attn_qkvpacked_func(causal: bool, shape: tuple[int, ...]) -> None:
    batch, rows, heads, dim = shape
    text = converted(f"""
        from flash_attn import flash_attn_qkvpacked_func
        qkv = qkv.cuda()
        out = flash_attn_qkvpacked_func(qkv, 0.0, causal={causal})
    """)
    (qkv,) = leaves((batch, rows, 3, heads, dim))
    expected = attention(*qkv.unbind(2), hidden=window(rows, rows, -1, 0 if causal else -1))
    assert_same(run(text, qkv=qkv)["out"], expected, [qkv])


@pytest.mark.parametrize("shape", [(2, 5, 9, 3, 8), (1, 4, 4, 2, 3)])
def test_flash_attn_kvpacked_func(shape: tuple[int, ...]) -> None:
    batch, rows, columns, heads, dim = shape
    text = converted("""
        from flash_attn import flash_attn_kvpacked_func
        q, kv = q.cuda(), kv.cuda()
        out = flash_attn_kvpacked_func(q, kv, softmax_scale=0.5)
    """)
    q, kv = leaves((batch, rows, heads, dim), (batch, columns, 2, heads, dim))
    assert_same(run(text, q=q, kv=kv)["out"], attention(q, *kv.unbind(2), scale=0.5), [q, kv])


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("flash_attn_func(q, k, v, alibi_slopes=slopes)", "`alibi_slopes` has no equal"),
        ("flash_attn_func(q, k, v, softcap=30.0)", "`softcap` has no equal"),
        ("flash_attn_func(q, k, v, return_attn_probs=True)", "`return_attn_probs` has no equal"),
        ("flash_attn_func(q, k, v, window_size=(w, 0))", "`window_size` is computed"),
        ("flash_attn_func(q, k, v, causal=c, window_size=(2, 0))", "`window_size` needs"),
        ("flash_attn_func(f(q), k, v, window_size=(2, 0))", "`window_size` needs"),
        ("flash_attn_qkvpacked_func(q, window_size=(2, 0))", "`window_size` needs"),
        ("flash_attn_func(*qkv)", "cannot be told apart"),
    ],
)
def test_what_has_no_equal_is_left_with_its_counterpart(call: str, reason: str) -> None:
    name = call.partition("(")[0]
    source = f"from flash_attn import {name}\nout = {call}\n"
    assert call in converted(source)
    assert any(reason in message for message in messages(source, "JM145"))
    assert any("torch_npu.npu_fusion_attention" in message for message in messages(source, "JM130"))


@pytest.mark.parametrize(
    "name", ["flash_attn_varlen_func", "flash_attn_varlen_kvpacked_func", "flash_attn_with_kvcache"]
)
def test_functions_without_an_equal_are_named(name: str) -> None:
    source = f"from flash_attn import {name}\nout = {name}(q, k, v)\n"
    assert f"out = {name}(q, k, v)" in converted(source)
    assert any(name in message and "torch_npu." in message for message in messages(source, "JM130"))


# ---- What the finding says to use in their place.


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("rows", "columns", "heads", "groups"), [((3, 5), (3, 5), 2, 2), ((1, 4, 7), (2, 9, 7), 4, 2), ((6,), (11,), 3, 1)]
)
def test_varlen_by_fusion_attention(
    causal: bool, rows: tuple[int, ...], columns: tuple[int, ...], heads: int, groups: int
) -> None:
    text = """
import torch, torch_npu
q, k, v = q.npu(), k.npu(), v.npu()
hidden = torch.ones(2048, 2048, dtype=torch.bool, device="npu").triu(1) if causal else None
out = torch_npu.npu_fusion_attention(
    q, k, v, q.size(1), input_layout="TND", scale=q.size(-1) ** -0.5, atten_mask=hidden,
    sparse_mode=3 if causal else 0, actual_seq_qlen=cu_q[1:].tolist(), actual_seq_kvlen=cu_k[1:].tolist(),
)[0]
"""
    q, k, v = leaves((sum(rows), heads, 8), (sum(columns), groups, 8), (sum(columns), groups, 8))
    pieces = (x.split_with_sizes(list(n)) for x, n in ((q, rows), (k, columns), (v, columns)))
    parts = zip(*pieces, strict=True)
    each = [
        attention(a[None], b[None], c[None], hidden=window(len(a), len(b), -1, 0 if causal else -1))[0]
        for a, b, c in parts
    ]
    cu_q, cu_k = (torch.tensor([0, *lengths]).cumsum(0) for lengths in (rows, columns))
    found = run(text, q=q, k=k, v=v, causal=causal, cu_q=cu_q, cu_k=cu_k)["out"]
    assert_same(found, torch.cat(each), [q, k, v])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(2, 5, 5, 4, 2, 8), (1, 3, 9, 2, 2, 5)])
def test_fusion_attention_in_the_layout_of_flash_attention(causal: bool, shape: tuple[int, ...]) -> None:
    batch, rows, columns, heads, groups, dim = shape
    text = """
import torch, torch_npu
q, k, v = q.npu(), k.npu(), v.npu()
hidden = torch.ones(2048, 2048, dtype=torch.bool, device="npu").triu(1) if causal else None
out = torch_npu.npu_fusion_attention(
    q, k, v, head_num=q.size(2), input_layout="BSND", scale=q.size(-1) ** -0.5, keep_prob=1.0, atten_mask=hidden,
    sparse_mode=3 if causal else 0,
)[0]
"""
    q, k, v = leaves((batch, rows, heads, dim), (batch, columns, groups, dim), (batch, columns, groups, dim))
    expected = attention(q, k, v, hidden=window(rows, columns, -1, 0 if causal else -1))
    assert_same(run(text, q=q, k=k, v=v, causal=causal)["out"], expected, [q, k, v])
