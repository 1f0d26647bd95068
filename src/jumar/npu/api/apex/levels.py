"""Optimization levels O0 to O3, and the options that change one of their properties."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch

FIRST_DYNAMIC_SCALE = 2.0**16


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The properties of a level, under the names that `amp.initialize` takes."""

    opt_level: str
    text: str
    cast_model_type: torch.dtype | None
    patch_torch_functions: bool
    keep_batchnorm_fp32: bool | None
    master_weights: bool | None
    loss_scale: float | str

    @property
    def half_model(self) -> bool:
        """Whether the model's weights are float16."""
        return self.cast_model_type is torch.float16


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
            opt_level="O2", text="float16 model with float32 batch normalization and master weights",
            cast_model_type=torch.float16, patch_torch_functions=False, keep_batchnorm_fp32=True, master_weights=True,
            loss_scale="dynamic",
        ),
        Level(
            opt_level="O3", text="pure float16 training", cast_model_type=torch.float16, patch_torch_functions=False,
            keep_batchnorm_fp32=False, master_weights=False, loss_scale=1.0,
        ),
    )
}  # fmt: skip


def resolve(opt_level: str, **overrides: Any) -> Level:
    """Return a level with the options that are not None. Raises RuntimeError for an unknown level or option value."""
    if opt_level not in LEVELS:
        raise RuntimeError(
            f"Unexpected optimization level {opt_level}. Options are 'O0', 'O1', 'O2', 'O3'. "
            "Note that in `O0`, `O1`, etc., the prefix O is the letter O, not the number zero."
        )
    given = {name: _value(name, value) for name, value in overrides.items() if value is not None}
    level = dataclasses.replace(LEVELS[opt_level], **given)
    if level.patch_torch_functions and level.cast_model_type is not None:
        raise RuntimeError(f"{opt_level} patches functions, so cast_model_type must be None.")
    if level.patch_torch_functions and level.keep_batchnorm_fp32 is not None:
        raise RuntimeError(
            "With opt_level O1, batchnorm functions are automatically patched to run in FP32, "
            f"so keep_batchnorm_fp32 should be None. keep_batchnorm_fp32 was {level.keep_batchnorm_fp32}"
        )
    if level.patch_torch_functions and level.master_weights is not None:
        raise RuntimeError("It doesn't make sense to use master_weights with O1: with O1 the model weights are FP32.")
    return level


def _value(name: str, value: Any) -> Any:
    """Return an option's value; command lines pass some as text."""
    if name == "loss_scale":
        return value if value == "dynamic" else float(value)
    if isinstance(value, str):
        if value not in ("True", "False"):
            raise RuntimeError(f"{name} must be a boolean, the string 'True' or 'False', or None; got {value!r}.")
        return value == "True"
    return value
