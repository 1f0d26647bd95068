"""Optimization levels O0 to O3, and the options that change one of their properties."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from jumar.amp.scale.scales import DynamicLossScale, FixedLossScale

HALF_TYPES = (torch.float16, torch.bfloat16)

WHY_BFLOAT16 = (
    "on the CPU it is bfloat16: it has float32's range, so gradients need no loss scale, and processors calculate it "
    "where float16 is only converted; half_type=torch.float16 asks for float16"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The properties of a level, under the names that `initialize` takes."""

    opt_level: str
    text: str
    cast_model_type: torch.dtype | None
    patch_torch_functions: bool
    keep_batchnorm_fp32: bool | None
    master_weights: bool | None
    loss_scale: float | str | DynamicLossScale | FixedLossScale
    half_type: torch.dtype = torch.float16
    """What O1 casts functions to, and O2 and O3 the weights."""

    @property
    def half_model(self) -> bool:
        """Whether the model's weights are of a 16-bit type."""
        return self.cast_model_type in HALF_TYPES


LEVELS = {
    level.opt_level: level
    for level in (
        Level(
            opt_level="O0", text="pure float32 training", cast_model_type=torch.float32, patch_torch_functions=False,
            keep_batchnorm_fp32=None, master_weights=False, loss_scale=1.0,
        ),
        Level(
            opt_level="O1", text="casts around PyTorch's functions", cast_model_type=None, patch_torch_functions=True,
            keep_batchnorm_fp32=None, master_weights=None, loss_scale="dynamic",
        ),
        Level(
            opt_level="O2", text="{half} model with float32 batch normalization and master weights",
            cast_model_type=torch.float16, patch_torch_functions=False, keep_batchnorm_fp32=True, master_weights=True,
            loss_scale="dynamic",
        ),
        Level(
            opt_level="O3", text="pure {half} training", cast_model_type=torch.float16, patch_torch_functions=False,
            keep_batchnorm_fp32=False, master_weights=False, loss_scale=1.0,
        ),
    )
}  # fmt: skip


def default_half_type(device_types: Iterable[str]) -> torch.dtype:
    """Return bfloat16 when all models are on the CPU, else float16, as Apex (`WHY_BFLOAT16` says why)."""
    return torch.bfloat16 if set(device_types) == {"cpu"} else torch.float16


def resolve(
    opt_level: str, *, half_type: torch.dtype | None = None, default: torch.dtype = torch.float16, **overrides: Any
) -> Level:
    """Return a level with the options that are not None.

    `half_type` is the 16-bit type that was asked for, `default` the one without. With bfloat16 the scale of O1 and
    O2 is 1 unless `loss_scale` is given: bfloat16 has float32's range. Raises RuntimeError for an unknown level, a
    type that is not of 16 bits, or options that contradict the level.
    """
    if opt_level not in LEVELS:
        raise RuntimeError(
            f"Unexpected optimization level {opt_level}. Options are 'O0', 'O1', 'O2', 'O3'. "
            "Note that in `O0`, `O1`, etc., the prefix O is the letter O, not the number zero."
        )
    given = {name: _value(name, value) for name, value in overrides.items() if value is not None}
    half = _half_type(half_type, given.get("cast_model_type"), default)
    level = LEVELS[opt_level]
    changes: dict[str, Any] = {"half_type": half, "text": level.text.format(half=str(half).removeprefix("torch."))}
    if level.half_model:
        changes["cast_model_type"] = half
    if half is torch.bfloat16 and level.loss_scale == "dynamic":
        changes["loss_scale"] = 1.0
    level = dataclasses.replace(level, **(changes | given))
    _check(level)
    return level


def _half_type(asked: torch.dtype | None, cast: torch.dtype | None, default: torch.dtype) -> torch.dtype:
    if asked is not None and asked not in HALF_TYPES:
        raise RuntimeError(f"half_type must be torch.float16, torch.bfloat16 or None; got {asked}.")
    if asked is not None and cast in HALF_TYPES and cast is not asked:
        raise RuntimeError(f"half_type is {asked} and cast_model_type {cast}; give one of the two.")
    if asked is None and cast in HALF_TYPES:
        return cast  # it is in HALF_TYPES
    return asked or default


def _check(level: Level) -> None:
    if level.patch_torch_functions and level.cast_model_type is not None:
        raise RuntimeError(
            f"{level.opt_level} patches functions, so cast_model_type must be None; half_type chooses the type of O1."
        )
    if level.patch_torch_functions and level.keep_batchnorm_fp32 is not None:
        raise RuntimeError(
            "With opt_level O1, batchnorm functions are automatically patched to run in FP32, "
            f"so keep_batchnorm_fp32 should be None. keep_batchnorm_fp32 was {level.keep_batchnorm_fp32}"
        )
    if level.patch_torch_functions and level.master_weights is not None:
        raise RuntimeError("It doesn't make sense to use master_weights with O1: with O1 the model weights are FP32.")


def _value(name: str, value: Any) -> Any:
    """Return an option's value; command lines pass some as text."""
    if name == "loss_scale":
        return _scale(value)
    if isinstance(value, str):
        if value not in ("True", "False"):
            raise RuntimeError(f"{name} must be a boolean, the string 'True' or 'False', or None; got {value!r}.")
        return value == "True"
    return value


def _scale(value: Any) -> Any:
    if value == "dynamic" or isinstance(value, (DynamicLossScale, FixedLossScale)):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not 0 < number < float("inf"):
        raise RuntimeError(f"loss_scale must be a number above 0 or 'dynamic'; got {value!r}.")
    return number
