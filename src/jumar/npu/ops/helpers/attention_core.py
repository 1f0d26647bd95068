"""The arithmetic that the attention operators share: layouts, masks by sparse mode, softmax statistics.

Everything is computed in float32 and given in the dtype of the query, where the AI core rounds the
probabilities to 16 bits before it multiplies by the values: results agree to the precision of that dtype.
A row with nothing to attend to is 0. Sources: the adapter's pages of npu_fusion_attention and
npu_fused_infer_attention_score.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch

from jumar.npu.ops.helpers.checks import expect

Tensor = torch.Tensor

COMPRESSED = 2048
"""Rows and columns of the mask that the modes 2, 3 and 4 (and 6 to 8) take in place of the whole one."""
UNLIMITED = 2147483647


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparsity:
    """Which keys a query attends to: the mode, its mask (true or 1 hides) and the band's width."""

    mask: Tensor | None = None
    mode: int = 0
    before: int = UNLIMITED
    after: int = UNLIMITED
    prefix: tuple[int, ...] = ()


def heads_first(x: Tensor, layout: str, num_heads: int) -> Tensor:
    """Return a query, key or value as (B, N, S, D)."""
    if layout in ("BSH", "SBH"):
        split = x.reshape(*x.shape[:2], num_heads, x.shape[2] // num_heads)
        return split.transpose(1, 2) if layout == "BSH" else split.permute(1, 2, 0, 3)
    if layout == "BSND":
        return x.transpose(1, 2)
    if layout == "TND":
        return x.transpose(0, 1).unsqueeze(0)
    return x


def heads_back(x: Tensor, layout: str) -> Tensor:
    """Return (B, N, S, D) in a layout."""
    if layout == "BSH":
        return x.transpose(1, 2).flatten(2)
    if layout == "SBH":
        return x.permute(2, 0, 1, 3).flatten(2)
    if layout == "BSND":
        return x.transpose(1, 2)
    if layout == "TND":
        return x.squeeze(0).transpose(0, 1)
    return x


def repeated(x: Tensor, num_heads: int, operator: str) -> Tensor:
    """Return a key or value with as many heads as the query: each is shared by a group (GQA)."""
    own = x.shape[1]
    rule = f"the {num_heads} heads of the query must be a multiple of those of key and value"
    expect(own > 0 and num_heads % own == 0, operator, rule, own)
    return x if own == num_heads else x.repeat_interleave(num_heads // own, 1)


@functools.cache
def _triangle() -> Tensor:
    return torch.ones(COMPRESSED, COMPRESSED, dtype=torch.bool).triu(1)


def check_compressed(operator: str, sparsity: Sparsity) -> None:
    """Raise RuntimeError unless the mask of a compressed mode is the triangle that the mode takes it for."""
    mask = sparsity.mask
    if mask is None or sparsity.mode not in (2, 3, 4, 7, 8):
        return
    shape = tuple(mask.shape)
    rule = f"atten_mask of sparse_mode {sparsity.mode} must be ({COMPRESSED}, {COMPRESSED})"
    expect(shape[-2:] == (COMPRESSED, COMPRESSED) and mask.numel() == COMPRESSED**2, operator, rule, shape)
    if not mask.is_meta:
        rule = f"atten_mask of sparse_mode {sparsity.mode} must be 1 above the diagonal and 0 elsewhere"
        expect(torch.equal(mask.reshape(COMPRESSED, COMPRESSED).bool(), _triangle()), operator, rule, "another mask")


def hidden(sparsity: Sparsity, num_queries: int, num_keys: int, device: torch.device, batch: int = 0) -> Tensor | None:
    """Return which of the scores (num_queries, num_keys) are hidden, or None for none.

    Modes 0, 1 and 5 read the whole mask, which the caller has cut to size; the others only say where a
    triangle or a band starts. `batch` picks the prefix of mode 6.
    """
    mask, mode = sparsity.mask, sparsity.mode
    if mask is None:
        return None
    rows = torch.arange(num_queries, device=device).unsqueeze(1)
    columns = torch.arange(num_keys, device=device).unsqueeze(0)
    shift = num_keys - num_queries
    if mode == 2:
        return columns > rows
    if mode == 3:
        return columns > rows + shift
    if mode == 4:
        return (columns > rows + shift + sparsity.after) | (columns < rows + shift - sparsity.before)
    if mode == 6:
        return (columns > rows + shift) & (columns >= sparsity.prefix[batch])
    given = mask.bool()
    if mode == 0 and (sparsity.before < num_queries or sparsity.after < num_keys):
        given = given | (columns > rows + sparsity.after) | (columns < rows - sparsity.before)
    return given


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """How scores become probabilities."""

    scale: float = 1.0
    bias: Tensor | None = None
    """Added to the products of query and key."""
    bias_first: bool = False
    """Whether the bias is added before the scale multiplies."""
    hidden: Tensor | None = None
    kept: Tensor | None = None
    """Which probabilities dropout keeps."""
    keep_prob: float = 1.0
    halved: bool = False
    """Whether the scores are kept in float16, before and after they are scaled."""


def attend(query: Tensor, key: Tensor, value: Tensor, how: Scores) -> tuple[Tensor, Tensor, Tensor]:
    """Return the attention (B, N, Sq, Dv), the row maxima and the row sums (B, N, Sq, 1), all in float32."""
    scores = query.float() @ key.float().transpose(-1, -2)
    if how.halved:
        scores = scores.half()  # what follows stays float16 until the exponential
    if how.bias is not None and how.bias_first:
        scores = (scores + how.bias.to(scores.dtype)) * how.scale
    else:
        scores = scores * how.scale
        if how.bias is not None:
            scores = scores + how.bias.to(scores.dtype)
    scores = scores.float()
    if how.hidden is not None:
        scores = scores.masked_fill(how.hidden, float("-inf"))
    top = scores.detach().amax(-1, keepdim=True) if key.shape[-2] else scores.new_full((*scores.shape[:-1], 1), 0.0)
    top = top.masked_fill(top == float("-inf"), 0.0)
    weights = torch.exp(scores - top)
    total = weights.sum(-1, keepdim=True)
    weights = weights / total.masked_fill(total == 0, 1.0)
    if how.kept is not None:
        weights = weights * how.kept / how.keep_prob
    return weights @ value.float(), top, total
