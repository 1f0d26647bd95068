"""Rotary position embeddings.

A pair of elements (a, b) of the head dimension becomes (a cos - b sin, b cos + a sin). `half` pairs element i
with i + D/2, `interleave` pairs neighbours.
"""

from __future__ import annotations

import torch

from jumar.npu.ops.helpers.checks import FLOATING, expect, refuse, require_dtype, wide
from jumar.npu.ops.mechanism.gradients import differentiate
from jumar.npu.ops.mechanism.implement import Step, derivative, implements

Tensor = torch.Tensor
_MODES = ("half", "interleave")


def rotated(x: Tensor, mode: str) -> Tensor:
    """Return `x` with each pair (a, b) of the last dimension turned into (-b, a)."""
    if mode == "half":
        a, b = x.chunk(2, -1)
        return torch.cat((-b, a), -1)
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).reshape(x.shape)


@implements("npu_rotary_mul")
def rotary_mul(x: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str, rotate: Tensor | None) -> Tensor:
    """`x * r1 + rotated(x) * r2`; r1 (cosines) and r2 (sines) broadcast to `x`, whose last dimension is even.

    `rotate` is a matrix that makes the rotation, `x @ rotate`, in place of the mode.
    """
    require_dtype("npu_rotary_mul", FLOATING, input=x, r1=r1, r2=r2)
    expect(rotary_mode in _MODES, "npu_rotary_mul", "rotary_mode must be 'half' or 'interleave'", rotary_mode)
    expect(x.shape[-1] % 2 == 0, "npu_rotary_mul", "the last dimension of the input must be even", x.shape[-1])
    turned = rotated(x, rotary_mode) if rotate is None else x @ rotate.to(x.dtype)
    return (x * r1 + turned * r2).to(x.dtype)


@implements("npu_rotary_mul_backward", differentiable=False)
def rotary_mul_backward(
    gradient: Tensor, x: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the input, r1 and r2."""
    found = differentiate(
        lambda *inputs: rotary_mul(inputs[0], inputs[1], inputs[2], rotary_mode, None), [x, r1, r2], [gradient]
    )
    return found[0], found[1], found[2]


@derivative("npu_rotary_mul")
def _rotary_mul_derivative(step: Step) -> dict[str, Tensor]:
    given = step.arguments
    if given["rotate"] is not None:
        refuse("npu_rotary_mul", "the gradient of a rotation matrix", "use rotary_mode, or plain operators")
    found = torch.ops.npu.npu_rotary_mul_backward(
        step.gradients[0], given["self"], given["r1"], given["r2"], given["rotary_mode"]
    )
    return dict(zip(("self", "r1", "r2"), found, strict=True))


@implements("npu_apply_rotary_pos_emb", differentiable=False)
def apply_rotary_pos_emb(
    query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, layout: str, rotary_mode: str
) -> tuple[Tensor, Tensor]:
    """Turn query and key by the same angles; cos and sin broadcast over the heads.

    With `layout` BSND or SBND tensors are 4-dimensional, with TND 3-dimensional; cos and sin have a head
    dimension of 1.
    """
    operator = "npu_apply_rotary_pos_emb"
    expect(layout in ("BSND", "BSH", "SBND", "BNSD", "TND"), operator, "layout must be a known one", repr(layout))
    expect(rotary_mode in ("half", "interleave", "quarter"), operator, "rotary_mode must be known", repr(rotary_mode))
    if rotary_mode == "quarter":
        refuse(operator, "the mode 'quarter'", "use 'half' or 'interleave'")
    return tuple(  # type: ignore[return-value]
        (value * cos + rotated(value, rotary_mode) * sin).to(value.dtype) for value in (query, key)
    )


@implements("npu_interleave_rope", differentiable=False)
def interleave_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Sort the pairs of neighbours into halves, then turn in `half` mode; x is (B, N, S, D), D = 64.

    The result keeps the sorted order: even elements first, odd ones after.
    """
    expect(x.dim() == 4, "npu_interleave_rope", "x must have 4 dimensions", x.dim())
    ordered = torch.cat((x[..., ::2], x[..., 1::2]), -1)
    return (ordered * cos + rotated(ordered, "half") * sin).to(x.dtype)


@implements("npu_mrope", differentiable=False)
def mrope(
    positions: Tensor,
    query: Tensor,
    key: Tensor,
    cos_sin_cache: Tensor,
    head_size: int,
    *,
    mrope_section: list[int] | None,
    rotary_mode: str | None,
    cache_mode: str | None,
) -> tuple[Tensor, Tensor]:
    """Rotary embedding whose angles come from a cache by position; 2-D positions (3, T) or (4, T) mix the axes.

    query and key are (T, heads * head_size); cos_sin_cache is (positions, rotary_dim), cosines then sines. Each axis
    gives the angles of one of `mrope_section`'s ranges, or with the cache mode `interleave` every third angle;
    1-D positions have one axis and take either mode.
    """
    operator = "npu_mrope"
    expect(rotary_mode in _MODES, operator, "rotary_mode must be 'half' or 'interleave'", rotary_mode)
    expect(
        cache_mode in ("default", "interleave"), operator, "cache_mode only support default or interleave", cache_mode
    )
    rotary_dim = cos_sin_cache.shape[-1]
    angles = wide(cos_sin_cache).index_select(0, positions.flatten().long())
    cos, sin = angles.reshape(*positions.shape, rotary_dim).chunk(2, -1)
    if positions.dim() == 2:
        sections = list(mrope_section or [])
        expect(sum(sections) == rotary_dim // 2, operator, "mrope_section must sum to rotary_dim / 2", sections)
        num_axes = positions.shape[0]
        expect(len(sections) == num_axes, operator, "mrope_section must have as many parts as positions", sections)
        join = _interleaved if cache_mode == "interleave" else _joined
        cos, sin = join(cos, sections, operator), join(sin, sections, operator)
    repeats = (lambda value: torch.cat((value, value), -1)) if rotary_mode == "half" else _doubled
    cos, sin = repeats(cos).unsqueeze(-2), repeats(sin).unsqueeze(-2)

    def turn(value: Tensor) -> Tensor:
        heads = wide(value).reshape(value.shape[0], -1, head_size)
        moved, kept = heads[..., :rotary_dim], heads[..., rotary_dim:]
        moved = moved * cos + rotated(moved, rotary_mode or "half") * sin
        return torch.cat((moved, kept), -1).reshape(value.shape).to(value.dtype)

    return turn(query), turn(key)


def _joined(value: Tensor, sections: list[int], _operator: str) -> Tensor:
    """Return of (axes, T, R / 2) the range of each axis, one after the other: (T, R / 2)."""
    return torch.cat([part[axis] for axis, part in enumerate(torch.split(value, sections, -1))], -1)


def _interleaved(value: Tensor, sections: list[int], operator: str) -> Tensor:
    """Return of (3, T, R / 2) the first axis with every third angle of the second and the third one: (T, R / 2)."""
    expect(len(sections) == 3, operator, "the cache mode 'interleave' takes three sections", sections)
    found = value[0].clone()
    for axis in (1, 2):
        places = slice(axis, sections[1] * 3, 3)
        found[..., places] = value[axis, ..., places]
    return found


def _doubled(value: Tensor) -> Tensor:
    return value.repeat_interleave(2, -1)
