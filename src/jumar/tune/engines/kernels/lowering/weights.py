"""Weights as the kernels read them: normalization folded in, transformed and packed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from jumar.tune.engines.kernels.recognise.steps import Conv, Norm
from jumar.tune.graph import Reference

Doubles = npt.NDArray[np.float64]
Constant = Callable[[Reference], Doubles]
"""Gives a weight's values."""

WINOGRAD_POINTS = {2: (0.0, 1.0, -1.0), 4: (0.0, 0.625, -0.625, 1.5, -1.5)}
"""Points of F(m x m, 3 x 3) besides infinity, as native/winograd.hpp has them."""


def scale_and_shift(norm: Norm, constant: Constant) -> tuple[Doubles, Doubles]:
    """Return what a normalization multiplies each channel by, and then adds."""
    scale = 1.0 / np.sqrt(constant(norm.variance) + norm.epsilon)
    if norm.weight is not None:
        scale = scale * constant(norm.weight)
    shift = -constant(norm.mean) * scale
    return scale, shift if norm.bias is None else shift + constant(norm.bias)


def folded(step: Conv, constant: Constant) -> tuple[Doubles, Doubles]:
    """Return weight [out, in / groups, height, width] and bias [out] with the normalization folded in, in float64."""
    weight = constant(step.weight)
    if step.turned:
        weight = weight.T
    weight = weight.reshape(weight.shape[0], -1, *step.kernel)
    bias = np.zeros(len(weight)) if step.bias is None else constant(step.bias)
    if step.norm is None:
        return weight, bias
    scale, shift = scale_and_shift(step.norm, constant)
    return weight * scale[:, None, None, None], bias * scale + shift


def lanewise(values: Doubles, blocks: int, lanes: int) -> Doubles:
    """Return [..., channels] with zeros up to `blocks * lanes` channels."""
    room = blocks * lanes - values.shape[-1]
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, room)])


def packed(matrix: npt.NDArray[np.float32], width: int, lanes: int) -> npt.NDArray[np.float32]:
    """Return [..., depth, out] as panels of `width * lanes` outputs, flat: [panel][...][depth][output of the panel]."""
    panel = width * lanes
    return np.concatenate(
        [matrix[..., start : start + panel].reshape(-1) for start in range(0, matrix.shape[-1], panel)]
    )


def transform_of(m: int) -> Doubles:
    """Return G of F(m, 3), [m + 2, 3]: powers of each point over its distances from the others, infinity last.

    Cook and Toom's construction, as in R. Blahut, Fast Algorithms for Signal Processing, 2010, chapter 5.
    """
    points = WINOGRAD_POINTS[m]
    rows = [
        [point**power / math.prod(point - other for other in points if other != point) for power in range(3)]
        for point in points
    ]
    return np.array([*rows, [0.0, 0.0, 1.0]])


def winograd(weight: Doubles, m: int) -> Doubles:
    """Return the transformed weights of F(m x m, 3 x 3): [(m + 2)^2, in, out]."""
    transform = transform_of(m)
    moved: Doubles = np.einsum("ip,ocpq,jq->ijco", transform, weight, transform, optimize=True)
    return moved.reshape(-1, *moved.shape[2:])
