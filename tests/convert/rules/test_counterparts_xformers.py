"""xformers: what its calls become, and what is told to use in place of the others, calculates the same."""

from __future__ import annotations

import pytest
import torch
from counterpart_cases import assert_same, attention, converted, leaves, messages, run, window
from torch import Tensor

IMPORTS = "import xformers.ops as xops\nq, k, v = q.cuda(), k.cuda(), v.cuda()\n"
SHAPES = [(2, 5, 5, 3, 8), (1, 7, 7, 1, 16), (2, 3, 9, 4, 5), (1, 9, 3, 2, 4)]
"""batch, rows, columns, heads, dim"""


def lower(rows: int, columns: int) -> Tensor:
    """Return what a mask hides that is aligned to the top left corner."""
    return torch.ones(rows, columns, dtype=torch.bool).triu(1)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("arguments", "scale", "mask"),
    [
        ("", None, ""),
        ("attn_bias=None, p=0.0, scale=0.3", 0.3, ""),
        ("attn_bias=xops.LowerTriangularMask()", None, "top left"),
        ("xops.LowerTriangularMask(), 0.0, 0.4, op=None", 0.4, "top left"),
        ("attn_bias=xops.fmha.attn_bias.LowerTriangularMask()", None, "top left"),
        ("attn_bias=xops.fmha.attn_bias.LowerTriangularFromBottomRightMask()", None, "bottom right"),
        ("attn_bias=xops.LowerTriangularFromBottomRightMask(), scale=0.2", 0.2, "bottom right"),
    ],
)
def test_memory_efficient_attention(arguments: str, scale: float | None, mask: str, shape: tuple[int, ...]) -> None:
    batch, rows, columns, heads, dim = shape
    if mask == "bottom right" and rows > columns:
        pytest.skip("rows that see nothing: NaN in PyTorch, and JM145 says so")
    head = ", " if arguments else ""
    text = converted(f"{IMPORTS}out = xops.memory_efficient_attention(q, k, v{head}{arguments})\n")
    q, k, v = leaves((batch, rows, heads, dim), (batch, columns, heads, dim), (batch, columns, heads, dim))
    hidden = {"": None, "top left": lower(rows, columns), "bottom right": window(rows, columns, -1, 0)}[mask]
    assert_same(run(text, q=q, k=k, v=v)["out"], attention(q, k, v, scale=scale, hidden=hidden), [q, k, v])


@pytest.mark.parametrize("shape", SHAPES)
def test_a_tensor_is_added_as_bias(shape: tuple[int, ...]) -> None:
    batch, rows, columns, heads, dim = shape
    text = converted(f"{IMPORTS}bias = bias.cuda()\nout = xops.memory_efficient_attention(q, k, v, bias)\n")
    q, k, v = leaves((batch, rows, heads, dim), (batch, columns, heads, dim), (batch, columns, heads, dim))
    (bias,) = leaves((batch, heads, rows, columns), seed=1)
    assert_same(run(text, q=q, k=k, v=v, bias=bias)["out"], attention(q, k, v, bias=bias), [q, k, v, bias])


def test_one_head_without_its_dimension_and_groups_of_heads() -> None:
    text = converted(f"{IMPORTS}out = xops.memory_efficient_attention(q, k, v)\n")
    q, k, v = leaves((2, 5, 8), (2, 7, 8), (2, 7, 8))
    expected = attention(*(each[:, :, None] for each in (q, k, v)))[:, :, 0]
    assert_same(run(text, q=q, k=k, v=v)["out"], expected, [q, k, v])
    q, k, v = leaves((2, 5, 2, 3, 8), (2, 7, 2, 3, 8), (2, 7, 2, 3, 8))
    expected = attention(*(each.flatten(2, 3) for each in (q, k, v))).view(2, 5, 2, 3, 8)
    assert_same(run(text, q=q, k=k, v=v)["out"], expected, [q, k, v])


@pytest.mark.parametrize(
    "bias",
    [
        "xops.fmha.attn_bias.BlockDiagonalMask.from_seqlens([3, 5])",
        "xops.fmha.attn_bias.BlockDiagonalCausalMask.from_seqlens([3, 5])",
        "xops.fmha.attn_bias.BlockDiagonalCausalWithOffsetPaddedKeysMask.from_seqlens([1], 4, [3])",
        "xops.fmha.attn_bias.LowerTriangularMaskWithTensorBias(bias)",
        "xops.fmha.attn_bias.LocalAttentionFromBottomRightMask(3, 0)",
    ],
)
def test_masks_without_an_equal_are_left_and_named(bias: str) -> None:
    call = f"xops.memory_efficient_attention(q, k, v, attn_bias={bias})"
    source = f"{IMPORTS}out = {call}\n"
    assert call in converted(source)
    assert any("object of xformers" in message for message in messages(source, "JM145"))
    found = messages(source, "JM130")
    assert any("memory_efficient_attention" in message for message in found)
    assert any("torch_npu.npu_fusion_attention" in message for message in found)


# ---- What the findings say to use in place of modules.


@pytest.mark.parametrize("shape", [(4, 6, 10, 6), (1, 5, 7, 3), (3, 13, 17, 11)])
def test_swiglu_by_npu_swiglu(shape: tuple[int, ...]) -> None:
    batch, features, hidden, out = shape
    found = messages("import xformers.ops as xops\nm = xops.SwiGLU(4, 8)\n", "JM130")
    assert any("w3(npu_swiglu(w12(x)))" in message for message in found)
    x, w12, b12, w3, b3 = leaves((batch, features), (2 * hidden, features), (2 * hidden,), (out, hidden), (out,))
    text = """
import torch_npu
from torch.nn.functional import linear
x, w12, b12, w3, b3 = x.npu(), w12.npu(), b12.npu(), w3.npu(), b3.npu()
out = linear(torch_npu.npu_swiglu(linear(x, w12, b12), dim=-1), w3, b3)
"""
    gate, value = (x.double() @ w12.double().T + b12.double()).chunk(2, -1)
    expected = (gate / (1 + torch.exp(-gate)) * value) @ w3.double().T + b3.double()
    found_out = run(text, x=x, w12=w12, b12=b12, w3=w3, b3=b3)["out"]
    assert_same(found_out, expected, [x, w12, b12, w3, b3], tolerance=1e-4)


@pytest.mark.parametrize("shape", [(4, 6), (3, 5, 7), (1, 1)])
def test_rms_norm_by_pytorchs(shape: tuple[int, ...]) -> None:
    found = messages("import xformers.ops as xops\nm = xops.RMSNorm(4)\n", "JM130")
    assert any("torch.nn.RMSNorm" in message and "1e-5" in message for message in found)
    x, weight = leaves(shape, shape[-1:])
    text = f"""
import torch, torch_npu
x, weight = x.npu(), weight.npu()
out = torch.nn.functional.rms_norm(x, ({shape[-1]},), weight, eps=1e-5)
own = torch_npu.npu_rms_norm(x, weight, epsilon=1e-5)[0]
"""
    expected = x.double() / (x.double().square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double()
    scope = run(text, x=x, weight=weight)
    assert_same(scope["out"], expected, [x, weight])
    torch.testing.assert_close(scope["own"].cpu().double(), expected.detach(), atol=1e-5, rtol=1e-5)
