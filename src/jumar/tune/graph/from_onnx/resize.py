"""ONNX's Resize and Upsample, as far as PyTorch computes the same.

Sizes and places are computed in 32 bits, as ONNX Runtime does: a scale of 0.7, written in 32 bits, makes 7 of 10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from jumar.tune.graph.from_onnx.call import Call, computes
from jumar.tune.model.errors import TuneError

_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
_ADVICE = "export the model with half_pixel (align_corners=False) or align_corners"
_TIE = 1e-6
"""What lies so near the middle of two places is between them."""


@dataclass(frozen=True, slots=True)
class _Resizing:
    """What a node asks for, of the spatial dimensions."""

    call: Call
    sizes: list[int]
    scales: list[float]
    coordinates: str
    rounding: str

    @property
    def is_exact(self) -> bool:
        """Whether the scales are the sizes' own ratios, so that either gives the same coordinates."""
        return all(self.is_own(dimension) for dimension in range(len(self.sizes)))

    @property
    def factors(self) -> list[float]:
        """The scales, such that PyTorch makes these sizes of them: it rounds the product down."""
        return [_factor(*self._of(dimension)) for dimension in range(len(self.sizes))]

    def is_own(self, dimension: int) -> bool:
        """Tell whether a scale is the ratio of the sizes; where it is not, elements move even if sizes are equal."""
        new, old, scale = self._of(dimension)
        return new == old * scale or scale == new / old

    def _of(self, dimension: int) -> tuple[int, int, float]:
        return self.sizes[dimension], self.call.tensor(0).shape[dimension + 2], self.scales[dimension]


@computes("Upsample")
def _upsample(call: Call) -> torch.Tensor:
    scales = call.attribute("scales") or [float(scale) for scale in call.known(1).reshape(-1)]
    return _resized(_by_scales(call, list(scales), "asymmetric", "simple"))


@computes("Resize")
def _resize(call: Call) -> torch.Tensor:
    if call.opset < 11:
        scales = [float(scale) for scale in call.known(1).reshape(-1)]
        return _resized(_by_scales(call, scales, "asymmetric", "simple"))
    if call.attribute("antialias", 0) or call.attribute("exclude_outside", 0):
        raise TuneError(f"{call} smooths (antialias) or leaves out what is outside, which is not converted so far.")
    if call.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise TuneError(f"{call} keeps the aspect ratio, which is not converted so far.")
    coordinates = call.attribute("coordinate_transformation_mode", "half_pixel")
    rounding = call.attribute("nearest_mode", "round_prefer_floor")
    rank = call.tensor(0).dim()
    axes = [axis % rank for axis in call.attribute("axes") or range(rank)]
    if call.has(3):
        given = dict(zip(axes, call.ints(3), strict=True))
        sizes = [given.get(axis, size) for axis, size in enumerate(call.tensor(0).shape)]
        return _resized(_by_sizes(call, sizes, coordinates, rounding))
    factors = dict(zip(axes, (float(scale) for scale in call.known(2).reshape(-1)), strict=True))
    return _resized(_by_scales(call, [factors.get(axis, 1.0) for axis in range(rank)], coordinates, rounding))


def _by_sizes(call: Call, sizes: list[int], coordinates: str, rounding: str) -> _Resizing:
    _refuse_batch(call, sizes)
    scales = [new / old for new, old in zip(sizes[2:], call.tensor(0).shape[2:], strict=True)]
    return _Resizing(call, sizes[2:], scales, coordinates, rounding)


def _by_scales(call: Call, scales: list[float], coordinates: str, rounding: str) -> _Resizing:
    old = list(call.tensor(0).shape)
    sizes = [int(np.float32(size) * np.float32(scale)) for size, scale in zip(old, scales, strict=True)]
    _refuse_batch(call, sizes)
    own = [_own_ratio(*one) for one in zip(sizes, old, scales, strict=True)]
    return _Resizing(call, sizes[2:], own[2:], coordinates, rounding)


def _own_ratio(new: int, old: int, scale: float) -> float:
    """Return the ratio of the sizes where the scale is that, written in 32 bits; else the scale."""
    return new / old if old and np.float32(new / old) == np.float32(scale) else scale


def _factor(new: int, old: int, scale: float) -> float:
    if int(old * scale) >= new:
        return scale
    ratio = new / old
    return ratio if int(old * ratio) >= new else math.nextafter(ratio, math.inf)


def _refuse_batch(call: Call, sizes: list[int]) -> None:
    if list(call.tensor(0).shape[:2]) != sizes[:2] or len(sizes) - 2 not in _LINEAR:
        raise TuneError(
            f"{call} resizes batch or channels, or {len(sizes) - 2} dimensions, which PyTorch does not have."
        )


def _resized(wanted: _Resizing) -> torch.Tensor:
    call, source, rank = wanted.call, wanted.call.tensor(0), len(wanted.sizes)
    if list(source.shape[2:]) == wanted.sizes:
        return source
    mode = call.attribute("mode", "nearest")
    if mode == "nearest":
        return _nearest(wanted, source)
    if mode not in {"linear", "cubic"} or (mode == "cubic" and rank != 2):
        raise TuneError(f"{call} interpolates by {mode} over {rank} dimensions, which PyTorch does not have.")
    if mode == "cubic" and call.attribute("cubic_coeff_a", -0.75) != -0.75:
        raise TuneError(f"{call} has cubic_coeff_a {call.attribute('cubic_coeff_a')}, and PyTorch has -0.75 only.")
    name = _LINEAR[rank] if mode == "linear" else "bicubic"
    if wanted.coordinates == "align_corners" and wanted.is_exact:
        return functional.interpolate(source, wanted.sizes, mode=name, align_corners=True)
    # `pytorch_half_pixel` differs from half_pixel in dimensions that shrink to one element only.
    known = {"half_pixel"} if 1 in wanted.sizes else {"half_pixel", "pytorch_half_pixel"}
    if wanted.coordinates not in known:
        raise TuneError(f"{call} takes its coordinates {wanted.coordinates}, which PyTorch does not have; {_ADVICE}.")
    if wanted.is_exact:
        return functional.interpolate(source, wanted.sizes, mode=name, align_corners=False)
    kept = [at for at, new in enumerate(wanted.sizes) if new == source.shape[at + 2] > 1 and not wanted.is_own(at)]
    if kept and mode == "linear":
        raise TuneError(
            f"{call} scales a dimension by {wanted.scales[kept[0]]:.4g} to the size it has, which PyTorch takes for a "
            "copy; export the model with sizes."
        )
    return functional.interpolate(
        source, scale_factor=wanted.factors, mode=name, align_corners=False, recompute_scale_factor=False
    )


def _nearest(wanted: _Resizing, source: torch.Tensor) -> torch.Tensor:
    """Take elements by their places, which are computed here as ONNX defines them."""
    whole = all(new % old == 0 for new, old in zip(wanted.sizes, source.shape[2:], strict=True)) and wanted.is_exact
    same = {("asymmetric", "floor"), ("asymmetric", "simple"), ("half_pixel", "round_prefer_floor")}
    if whole and (wanted.coordinates, wanted.rounding) in same:
        return functional.interpolate(source, wanted.sizes, mode="nearest")
    for dimension, new in enumerate(wanted.sizes):
        old = source.shape[dimension + 2]
        if new != old or not wanted.is_own(dimension):
            index = torch.tensor([_place(wanted, at, dimension, old) for at in range(new)])
            source = torch.index_select(source, dimension + 2, index)
    return source


def _place(wanted: _Resizing, at: int, dimension: int, old: int) -> int:
    new, one, half = wanted.sizes[dimension], np.float32(at), np.float32(0.5)
    scale = np.float32(wanted.scales[dimension])
    known = {
        "half_pixel": (one + half) / scale - half,
        "pytorch_half_pixel": (one + half) / scale - half if new > 1 else np.float32(0),
        "asymmetric": one / scale,
        "align_corners": one * np.float32(old - 1) / np.float32(max(new - 1, 1)),
    }
    if wanted.coordinates not in known:
        raise TuneError(
            f"{wanted.call} takes its coordinates {wanted.coordinates}, which is not converted so far; {_ADVICE}."
        )
    exact = float(known[wanted.coordinates])
    rounded = {
        "floor": math.floor(exact),
        "simple": math.ceil(exact) if scale < 1 else math.floor(exact),  # before there was a choice
        "ceil": math.ceil(exact),
        "round_prefer_floor": math.ceil(exact - 0.5 - _TIE),
        "round_prefer_ceil": math.floor(exact + 0.5 + _TIE),
    }[wanted.rounding]
    return min(max(rounded, 0), old - 1)


@computes("GridSample")
def _grid_sample(call: Call) -> torch.Tensor:
    mode = call.attribute("mode", "linear")
    names = {"linear": "bilinear", "cubic": "bicubic"}
    source = call.tensor(0)
    if source.dim() > 5 or (source.dim() == 5 and mode in {"cubic", "bicubic"}):
        raise TuneError(f"{call} takes {mode} samples of {source.dim() - 2} dimensions, which PyTorch has not.")
    return functional.grid_sample(
        source, call.tensor(1), names.get(mode, mode), call.attribute("padding_mode", "zeros"),
        bool(call.attribute("align_corners", 0)),
    )  # fmt: skip
