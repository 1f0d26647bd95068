"""`initialize`: models and optimizers made ready for a level."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from jumar.amp.cast import casting
from jumar.amp.cast.levels import HALF_TYPES, WHY_BFLOAT16, Level, default_half_type, resolve
from jumar.amp.hooks import hooks_of
from jumar.amp.scale.origins import remember_names
from jumar.amp.scale.scaler import LossScaler
from jumar.amp.scale.scales import GREATEST, DynamicLossScale, FixedLossScale
from jumar.amp.state import STATE, say
from jumar.amp.step.averaging import Averager, spread
from jumar.amp.step.masters import AmpState
from jumar.amp.step.methods import STASH


def initialize(
    models: Any,
    optimizers: Any = None,
    enabled: bool = True,
    opt_level: str = "O1",
    cast_model_type: torch.dtype | None = None,
    patch_torch_functions: bool | None = None,
    keep_batchnorm_fp32: bool | str | None = None,
    master_weights: bool | None = None,
    loss_scale: float | str | DynamicLossScale | FixedLossScale | None = None,
    cast_model_outputs: torch.dtype | None = None,
    num_losses: int = 1,
    verbosity: int = 1,
    min_loss_scale: float | None = None,
    max_loss_scale: float = GREATEST,
    combine_grad: bool | None = None,
    combine_ddp: bool | None = None,
    ddp_replica_count: int = 4,
    check_combined_tensors: bool | None = None,
    user_cast_preferred: bool | None = None,  # noqa: ARG001  # registered functions are always preferred here
    half_type: torch.dtype | None = None,
) -> Any:
    """Prepare models and optimizers for a level; return them as they came (one, a list, or with None).

    Names and meaning are those of Apex (nvidia.github.io/apex/amp.html) and of Ascend's Apex; what is added:

    - `half_type`: the 16-bit type. Without it float16, and bfloat16 when all models are on the CPU.
    - `loss_scale` also takes `FixedLossScale` and `DynamicLossScale`. With bfloat16 the levels' scale is 1.
    - `combine_grad` keeps the gradients of each optimizer in flat buffers (one per dtype), so that looking for NaN,
      unscaling and clipping are one operator; `check_combined_tensors` raises RuntimeError in `scale_loss` when
      gradients no longer lie there.
    - `combine_ddp` averages gradients over the ranks in place of DistributedDataParallel, `ddp_replica_count` being
      the number of messages for each dtype. Weights are taken from rank 0 now, so the group must exist.

    Raises RuntimeError for a model that has 16-bit weights already or is wrapped for several devices too early, for
    an optimizer that was given before, and for options that contradict the level.
    """
    if not enabled:
        STATE.disabled = True
        return models if optimizers is None else (models, optimizers)
    networks, steppers = _models(models), _optimizers(optimizers)
    device_types = sorted({device_type for model in networks for device_type in _devices(model)}) or ["cpu"]
    level = resolve(
        opt_level,
        half_type=half_type,
        default=default_half_type(device_types),
        cast_model_type=cast_model_type,
        patch_torch_functions=patch_torch_functions,
        keep_batchnorm_fp32=keep_batchnorm_fp32,
        master_weights=master_weights,
        loss_scale=loss_scale,
    )
    for model in networks:
        _check_model(model)
    scalers = [LossScaler(level.loss_scale, min_loss_scale, max_loss_scale, device_types) for _ in range(num_losses)]
    for model in networks:
        if combine_ddp:
            spread(model)
        casting.convert_model(model, level, cast_model_outputs)
    remember_names(networks)
    casting.stop_casting_functions()
    STATE.level, STATE.verbosity, STATE.disabled = level, verbosity, False
    STATE.scalers, STATE.num_decisions = scalers, [0] * num_losses
    STATE.skipped.clear()
    for optimizer in steppers:
        AmpState(
            optimizer,
            master_weights=bool(level.master_weights),
            averager=Averager(ddp_replica_count) if combine_ddp else None,
            combine=bool(combine_grad),
            check_combined=bool(check_combined_tensors),
        )
    if level.patch_torch_functions:
        _cast_functions(device_types, level)
    _announce(level, device_types, chosen=half_type is None and cast_model_type is None)
    return models if optimizers is None else (models, optimizers)


def listed(values: Any) -> list[Any]:
    """Return one value, or those of a list, as a list; nothing for None."""
    if values is None:
        return []
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _models(models: Any) -> list[nn.Module]:
    found = listed(models)
    if models is None or not all(isinstance(model, nn.Module) for model in found):
        kinds = ", ".join(sorted({type(model).__name__ for model in found})) or "None"
        raise RuntimeError(f"models must be either a single model or a list of models; got {kinds}.")
    return found


def _optimizers(optimizers: Any) -> list[Optimizer]:
    found = listed(optimizers)
    for optimizer in found:
        if not isinstance(optimizer, Optimizer):
            raise RuntimeError(
                f"optimizers must be either a single optimizer or a list of optimizers; got {type(optimizer).__name__}."
            )
        if hasattr(optimizer, STASH):
            raise RuntimeError("A given optimizer should only be passed through amp.initialize once.")
    return found


def _devices(model: nn.Module) -> set[str]:
    return {parameter.device.type for parameter in model.parameters() if parameter.is_floating_point()}


def _check_model(model: nn.Module) -> None:
    if isinstance(model, (nn.parallel.DistributedDataParallel, nn.DataParallel)):
        raise RuntimeError(
            f"Incoming model is an instance of {type(model).__module__}.{type(model).__name__}. "
            "Parallel wrappers should only be applied to the model(s) AFTER \nthe model(s) have been returned from "
            "amp.initialize."
        )
    for name, parameter in model.named_parameters():
        if parameter.dtype in HALF_TYPES:
            raise RuntimeError(
                f"Found param {name} with type {parameter.dtype}, expected torch.float32.\nWhen using "
                "amp.initialize, you do not need to call .half() on your model\nbefore passing it, no matter what "
                "optimization level you choose."
            )


def _cast_functions(device_types: list[str], level: Level) -> None:
    for module, name, cast in STATE.registered:
        setattr(module, name, cast(getattr(module, name)))
    STATE.registered.clear()
    casting.cast_functions(device_types, level.half_type)
    for device_type in device_types:
        on_casts = hooks_of(device_type).on_casts
        if on_casts is not None:
            on_casts()


def _announce(level: Level, device_types: list[str], *, chosen: bool) -> None:
    if not STATE.verbosity:
        return
    scale: Any = "dynamic" if STATE.scalers and STATE.scalers[0].dynamic else None
    if scale is None and STATE.scalers:
        scale = STATE.scalers[0].loss_scale()
    say(f"Selected optimization level {level.opt_level}:  {level.text}.")
    for name in ("cast_model_type", "patch_torch_functions", "keep_batchnorm_fp32", "master_weights"):
        say(f"{name:<23}: {getattr(level, name)}")
    say(f"{'loss_scale':<23}: {scale}")
    if level.patch_torch_functions or level.half_model:
        why = f" ({WHY_BFLOAT16})" if chosen and device_types == ["cpu"] else ""
        say(f"{'half_type':<23}: {level.half_type}{why}")
