"""Mixed precision and flat optimizers on any device, under Apex's names.

The names below are loaded when first used, so that importing the room imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader

if TYPE_CHECKING:
    from jumar.amp.apex.finder import install, uninstall
    from jumar.amp.api import (
        DynamicLossScale,
        FixedLossScale,
        SkippedStep,
        clip_grad_norm_,
        combined_gradients,
        disable_casts,
        float_function,
        grad_scaler_state,
        half_function,
        init,
        initialize,
        load_state_dict,
        master_params,
        promote_function,
        register_float_function,
        register_half_function,
        register_promote_function,
        scale_loss,
        skipped_steps,
        state_dict,
    )

_API = [
    "DynamicLossScale", "FixedLossScale", "SkippedStep", "clip_grad_norm_", "combined_gradients", "disable_casts",
    "float_function", "grad_scaler_state", "half_function", "init", "initialize", "load_state_dict", "master_params",
    "promote_function", "register_float_function", "register_half_function", "register_promote_function",
    "scale_loss", "skipped_steps", "state_dict",
]  # fmt: skip
__all__ = ["DynamicLossScale", "FixedLossScale", "SkippedStep", "clip_grad_norm_", "combined_gradients"]
__all__ += ["disable_casts", "float_function"]
__all__ += ["grad_scaler_state", "half_function", "init", "initialize", "install", "load_state_dict", "master_params"]
__all__ += ["promote_function", "register_float_function", "register_half_function", "register_promote_function"]
__all__ += ["scale_loss", "skipped_steps", "state_dict", "uninstall"]

_HOME = dict.fromkeys(_API, "jumar.amp.api") | dict.fromkeys(("install", "uninstall"), "jumar.amp.apex.finder")

__getattr__ = loader(__name__, __all__, _HOME)
__dir__ = directory(__name__, __all__)
