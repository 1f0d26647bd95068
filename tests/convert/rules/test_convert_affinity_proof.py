"""Affinity rewrites: what was written and what stands for it, run on the emulated NPU, forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opt_in_cases import outcome_with

import jumar

HEAD = "import math\nimport torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


@pytest.fixture(scope="module", autouse=True)
def npu() -> Iterator[None]:
    with jumar.emulate(numerics="exact"):
        yield


def both(source: str, code: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The names of a snippet as it was and as it became; the rewrite must have been made."""
    found = outcome_with(HEAD + source, code)
    assert any(finding.code == code and finding.evidence.get("applied") for finding in found.findings)
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    exec(compile(HEAD + source, "before.py", "exec"), before)
    exec(compile(found.after.decode(), "after.py", "exec"), after)
    return before, after


def outcomes(function: Callable[..., torch.Tensor], inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The result and the gradients of a function on the NPU, for a gradient that differs at each place."""
    moved = [x.detach().clone().npu().requires_grad_(x.dtype.is_floating_point) for x in inputs]  # type: ignore[attr-defined]
    result = function(*moved)
    weights = torch.linspace(-1, 1, result.numel()).view(result.shape).npu()  # type: ignore[attr-defined]
    (result * weights).sum().backward()
    return [result.detach().cpu(), *(x.grad.cpu() for x in moved if x.grad is not None)]


def prove(before: Any, after: Any, inputs: list[torch.Tensor], tolerance: float = 0.0) -> None:
    expected, actual = outcomes(before, inputs), outcomes(after, inputs)
    assert len(expected) == len(actual)
    for one, other in zip(expected, actual, strict=True):
        assert one.shape == other.shape
        torch.testing.assert_close(other, one, rtol=tolerance, atol=tolerance)


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


many = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
sizes = st.integers(1, 5)

SHUFFLES = {
    "torchvision": """
def shuffle(x, groups):
    # type: (torch.Tensor, int) -> torch.Tensor
    batchsize, num_channels, height, width = x.data.size()
    channels_per_group = num_channels // groups
    # reshape
    x = x.view(batchsize, groups,
               channels_per_group, height, width)
    x = torch.transpose(x, 1, 2).contiguous()
    # flatten
    x = x.view(batchsize, -1, height, width)
    return x
""",
    "one expression": """
def shuffle(x, groups):
    N, C, H, W = x.size()
    g = groups
    return x.view(N, g, C // g, H, W).permute(0, 2, 1, 3, 4).reshape(N, C, H, W)
""",
    "flatten": """
def shuffle(x, groups):
    b, c, h, w = x.shape
    y = x.reshape(b, groups, c // groups, h, w)
    y = y.transpose(2, 1)
    return y.flatten(1, 2)
""",
}


@pytest.mark.parametrize("source", SHUFFLES.values(), ids=SHUFFLES)
@given(batch=sizes, groups=sizes, each=sizes, height=sizes, width=sizes)
@many
def test_the_channel_shuffle_is_equal_to_the_bit(
    source: str, batch: int, groups: int, each: int, height: int, width: int
) -> None:
    before, after = both(source, "JM165")
    x = drawn(batch, groups * each, height, width)
    prove(lambda x: before["shuffle"](x, groups), lambda x: after["shuffle"](x, groups), [x])


def test_channels_that_groups_do_not_divide_are_an_error_as_before() -> None:
    for names in both(SHUFFLES["torchvision"], "JM165"):
        with pytest.raises(RuntimeError):
            names["shuffle"](drawn(1, 5, 2, 2).npu(), 2)  # type: ignore[attr-defined]


FOCUS = {
    "one expression": "def f(x):\n    return torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], "
    "x[..., 1::2, 1::2]], 1)\n",
    "statements": """
def f(x):
    top_left = x[..., ::2, ::2]
    top_right = x[..., ::2, 1::2]
    bot_left = x[..., 1::2, ::2]
    bot_right = x[..., 1::2, 1::2]
    return torch.cat((top_left, bot_left, top_right, bot_right), dim=1)
""",
    "by rows": "def f(x):\n    return torch.cat((x[:, :, 0::2, 0::2], x[:, :, 0::2, 1::2], x[:, :, 1::2, 0::2], "
    "x[:, :, 1::2, 1::2]), dim=1)\n",
}


@pytest.mark.parametrize("source", FOCUS.values(), ids=FOCUS)
@given(batch=sizes, channels=sizes, height=sizes, width=sizes)
@many
def test_focus_is_equal_to_the_bit(source: str, batch: int, channels: int, height: int, width: int) -> None:
    before, after = both(source, "JM166")
    prove(before["f"], after["f"], [drawn(batch, channels, 2 * height, 2 * width)])


ATTENTION = {
    "scaled": """
def f(q, k, v):
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    weights = F.softmax(scores, dim=-1)
    return torch.matmul(weights, v)
""",
    "masked": """
def f(q, k, v):
    T = q.size(2)
    mask = torch.tril(torch.ones(T, k.size(2), device=q.device))
    att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    att = att.masked_fill(mask == 0, float('-inf'))
    att = F.softmax(att, dim=-1)
    return att @ v
""",
    "with a bias": """
def f(q, k, v):
    bias = torch.arange(k.size(-2), device=q.device, dtype=q.dtype) / 4
    attn = q @ k.transpose(-1, -2)
    attn = attn + bias[None, :]
    attn = attn.softmax(dim=-1)
    return attn @ v
""",
    "heads": """
def f(q, k, v):
    B, H, T, C = q.shape
    S = k.size(2)
    q = q.reshape(B, T, H, C).transpose(1, 2)
    k = k.reshape(B, S, H, C).transpose(1, 2)
    v = v.reshape(B, S, H, C).transpose(1, 2)
    att = (q @ k.transpose(-2, -1)) * C ** -0.5
    mask = torch.ones(T, S, device=q.device).triu(1)
    att = att.masked_fill(mask == 1, -1e9)
    att = att.softmax(-1)
    return att @ v
""",
}


@pytest.mark.parametrize("source", ATTENTION.values(), ids=ATTENTION)
@given(batch=st.integers(1, 3), heads=st.integers(1, 3), length=st.integers(1, 6), more=st.integers(0, 3))
@many
def test_fused_attention_is_equal_within_rounding(source: str, batch: int, heads: int, length: int, more: int) -> None:
    before, after = both(source, "JM167")
    query = drawn(batch, heads, length, 16)
    key, value = drawn(batch, heads, length + more, 16) + 0.1, drawn(batch, heads, length + more, 16) - 0.1
    prove(before["f"], after["f"], [query, key, value], tolerance=1e-5)


def test_heads_that_the_file_shows_go_to_the_vendor_s_kernel() -> None:
    kernels = {name: outcome_with(HEAD + source, "JM167").after.decode() for name, source in ATTENTION.items()}
    assert [name for name, after in kernels.items() if "npu_fusion_attention" in after] == ["heads"]


GPT = """
class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.heads = heads
        self.scale = (width // heads) ** -0.5
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = attn.softmax(dim=-1)
        attn = self.drop(attn)
        return (attn @ v).transpose(1, 2).reshape(B, N, C)
"""


def test_a_layer_with_dropout_is_equal_in_evaluation_and_drops_in_training() -> None:
    before, after = both(GPT, "JM167")
    torch.manual_seed(0)
    one = before["Attention"](32, 2).npu()
    other = after["Attention"](32, 2).npu()
    other.load_state_dict(one.state_dict())
    x = drawn(2, 5, 32)
    prove(one.eval(), other.eval(), [x], tolerance=1e-5)
    other.train()
    assert not torch.equal(other(x.npu()).cpu(), other(x.npu()).cpu())  # type: ignore[attr-defined]


ACTIVATIONS = {
    "swish": "def f(x):\n    return x * torch.sigmoid(x)\n",
    "swish, turned": "def f(x):\n    return x.sigmoid() * x\n",
    "mish": "def f(x):\n    return x * torch.tanh(F.softplus(x))\n",
    "mish, spread": "def f(x):\n    s = F.softplus(x)\n    t = s.tanh()\n    return x.mul(t)\n",
    "quick gelu": "def f(x):\n    return x * torch.sigmoid(1.702 * x)\n",
    "layer": "class N(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.s = nn.Sigmoid()\n"
    "    def forward(self, x):\n        return x * self.s(x)\nf = N()\n",
}


@pytest.mark.parametrize("source", ACTIVATIONS.values(), ids=ACTIVATIONS)
@given(shape=st.lists(sizes, min_size=1, max_size=4), factor=st.sampled_from([0.01, 1.0, 20.0]))
@many
def test_one_activation_is_equal_within_rounding(source: str, shape: list[int], factor: float) -> None:
    before, after = both(source, "JM168")
    prove(before["f"], after["f"], [drawn(*shape) * factor], tolerance=2e-6)


NORMS = {
    "plain": """
def f(x, weight):
    variance = x.pow(2).mean(-1, keepdim=True)
    x = x * torch.rsqrt(variance + 1e-6)
    return weight * x
""",
    "with casts": """
class N(nn.Module):
    def forward(self, hidden, weight):
        input_dtype = hidden.dtype
        hidden = hidden.to(torch.float32)
        variance = hidden.pow(2).mean(-1, keepdim=True)
        hidden = hidden * torch.rsqrt(variance + 1e-5)
        return weight * hidden.to(input_dtype)
f = N()
""",
    "one expression": "def f(x, weight):\n"
    "    return x * torch.rsqrt((x * x).mean(dim=-1, keepdim=True) + 1e-6) * weight\n",
}


@pytest.mark.parametrize("source", NORMS.values(), ids=NORMS)
@given(batch=sizes, length=sizes, width=st.integers(2, 9))
@many
def test_the_fused_normalization_is_equal_within_rounding(source: str, batch: int, length: int, width: int) -> None:
    before, after = both(source, "JM169")
    prove(before["f"], after["f"], [drawn(batch, length, width), drawn(width)], tolerance=1e-5)


ROTARY = {
    "slices": """
def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)
def f(q, cos, sin):
    cos = cos.unsqueeze(1)
    sin = sin.unsqueeze(1)
    return (q * cos) + (rotate_half(q) * sin)
""",
    "chunks": """
def turned(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([-b, a], dim=-1)
def f(q, cos, sin):
    return turned(q) * sin[:, None] + q * cos[:, None]
""",
}


@pytest.mark.parametrize("source", ROTARY.values(), ids=ROTARY)
@given(batch=sizes, heads=sizes, length=sizes, half=sizes)
@many
def test_the_fused_rotation_is_equal_within_rounding(
    source: str, batch: int, heads: int, length: int, half: int
) -> None:
    before, after = both(source, "JM170")
    angles = drawn(batch, length, half).repeat(1, 1, 2)
    prove(before["f"], after["f"], [drawn(batch, heads, length, 2 * half), angles.cos(), angles.sin()], tolerance=2e-6)


@given(shape=st.lists(sizes, min_size=1, max_size=3), half=sizes)
@many
def test_the_fused_gate_is_equal_within_rounding(shape: list[int], half: int) -> None:
    before, after = both("def f(x):\n    a, b = x.chunk(2, dim=-1)\n    return b * F.silu(a)\n", "JM171")
    prove(before["f"], after["f"], [drawn(*shape, 2 * half)], tolerance=2e-6)


@given(shape=st.lists(sizes, min_size=1, max_size=4), limit=st.sampled_from(["0", "-0.5", "1e9"]))
@many
def test_the_masked_fill_is_equal_to_the_bit(shape: list[int], limit: str) -> None:
    source = f"def f(y):\n    x = torch.mul(y, 2)\n    x[x < {limit}] = -3\n    return x * y\n"
    before, after = both(source, "JM172")
    prove(before["f"], after["f"], [drawn(*shape)])
