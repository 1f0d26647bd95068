"""CUDA snippets, converted and run on the emulated NPU, beside formulas in float64 that are written here."""

from __future__ import annotations

import math
from textwrap import dedent
from typing import Any

import torch
from torch import Tensor

from jumar.convert import ConvertOptions, Success, convert_source
from jumar.device import emulate

TOLERANCE = 2e-5
"""Of float32 results against float64; the emulated NPU calculates exactly here."""


def converted(source: str, **options: Any) -> str:
    """Return a snippet converted for the NPU, with similar interfaces allowed."""
    found = convert_source(dedent(source), "a.py", ConvertOptions(similar=True, **options))
    assert isinstance(found, Success), found
    return found.after.decode()


def messages(source: str, code: str) -> list[str]:
    """Return what the findings of a rule say of a snippet, why, and what to do."""
    found = convert_source(dedent(source), "a.py", ConvertOptions(similar=True))
    return [f"{finding.message} {finding.why} {finding.action}" for finding in found.findings if finding.code == code]


def run(text: str, **given: Any) -> dict[str, Any]:
    """Run converted code on the emulated NPU with these names and return its namespace; CUDA must be gone from it."""
    assert "cuda" not in text.replace("_cuda", "")
    for library in ("flash_attn", "xformers", "apex"):
        assert f"import {library}" not in text
        assert f"from {library}" not in text
    with emulate(numerics="exact"):
        scope: dict[str, Any] = dict(given)
        exec(compile(text, "converted.py", "exec"), scope)
        return scope


def leaves(*shapes: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    """Return random float32 tensors that need gradients."""
    torch.manual_seed(seed)
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    scale: float | None = None,
    hidden: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """softmax(q k^T scale + bias) v in float64 for (batch, sequence, heads, dim); rows that see nothing are 0.

    Heads of q share those of k and v in groups; `hidden` and `bias` are for (rows, columns) or (batch, heads, …).
    """
    q, k, v = q.double(), k.double(), v.double()
    groups = q.shape[2] // k.shape[2]
    k, v = k.repeat_interleave(groups, 2), v.repeat_interleave(groups, 2)
    scores = torch.einsum("bihd,bjhd->bhij", q, k) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if bias is not None:
        scores = scores + bias.double()
    if hidden is None:
        hidden = torch.zeros(q.shape[1], k.shape[1], dtype=torch.bool)
    weights = torch.exp(scores - scores.amax(-1, keepdim=True)).masked_fill(hidden, 0)
    total = weights.sum(-1, keepdim=True)
    return torch.einsum("bhij,bjhd->bihd", weights / total.masked_fill(total == 0, 1), v)


def window(rows: int, columns: int, left: int, right: int) -> Tensor:
    """Return what a sliding window hides, aligned to the bottom right corner; -1 is no bound."""
    at = torch.arange(rows)[:, None] + columns - rows
    other = torch.arange(columns)
    hidden = torch.zeros(rows, columns, dtype=torch.bool)
    if left >= 0:
        hidden |= other < at - left
    if right >= 0:
        hidden |= other > at + right
    return hidden


def assert_same(found: Tensor, expected: Tensor, inputs: list[Tensor], tolerance: float = TOLERANCE) -> None:
    """Compare a result on the NPU and the gradients that flow from it with those of the formula."""
    assert found.device.type == "npu"
    weights = torch.linspace(-1, 1, expected.numel()).view(expected.shape)
    gradients = torch.autograd.grad((expected * weights).sum(), inputs)
    for each in inputs:
        each.grad = None
    torch.autograd.backward((found * weights.to(found.device)).sum())
    torch.testing.assert_close(found.detach().cpu().double(), expected.detach(), atol=tolerance, rtol=tolerance)
    for each, gradient in zip(inputs, gradients, strict=True):
        assert each.grad is not None
        torch.testing.assert_close(each.grad.double(), gradient.double(), atol=tolerance * 5, rtol=tolerance * 5)
