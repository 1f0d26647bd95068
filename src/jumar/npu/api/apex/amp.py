"""`apex.amp`: mixed precision by optimization level, for models on the npu.

O1 casts by PyTorch's autocast lists of the npu, where apex patches functions one by one: the same
functions get float16 and float32, up to a few that the two lists treat differently.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from jumar.npu.api.apex import casting
from jumar.npu.api.apex.casting import disable_casts, float_function, half_function, promote_function
from jumar.npu.api.apex.levels import Level, resolve
from jumar.npu.api.apex.masters import AmpState
from jumar.npu.api.apex.scaler import LossScaler, say
from jumar.npu.core.state import STATE

__all__ = [
    "disable_casts", "float_function", "half_function", "init", "initialize", "load_state_dict", "master_params",
    "promote_function", "register_float_function", "register_half_function", "register_promote_function", "scale_loss",
    "state_dict",
]  # fmt: skip

_MASTERS = "_amp_stash"


class _Amp:
    """The one state that a process has."""

    def __init__(self) -> None:
        self.level: Level | None = None
        self.scalers: list[LossScaler] = []
        self.verbosity = 1
        self.registered: list[tuple[Any, str, Callable[[Any], Any]]] = []


_STATE = _Amp()

_CASTS = "apex.amp casts functions"
"""Option that says so; like every option, it ends with the `emulate` block it was set in."""


def _settle() -> None:
    """End the casts of O1 when the option has gone."""
    if _STATE.level is not None and _STATE.level.patch_torch_functions and not STATE.options.get(_CASTS):
        casting.stop_casting_functions()
        _STATE.level = None


STATE.on_settings.append(_settle)


def initialize(
    models: Any,
    optimizers: Any = None,
    enabled: bool = True,
    opt_level: str = "O1",
    cast_model_type: torch.dtype | None = None,
    patch_torch_functions: bool | None = None,
    keep_batchnorm_fp32: bool | str | None = None,
    master_weights: bool | None = None,
    loss_scale: float | str | None = None,
    cast_model_outputs: torch.dtype | None = None,
    num_losses: int = 1,
    verbosity: int = 1,
    min_loss_scale: float | None = None,
    max_loss_scale: float = 2.0**24,
    combine_grad: bool | None = None,  # noqa: ARG001  # a matter of speed
    combine_ddp: bool | None = None,
    ddp_replica_count: int = 4,  # noqa: ARG001  # a matter of speed
    check_combined_tensors: bool | None = None,  # noqa: ARG001  # a matter of speed
    user_cast_preferred: bool | None = None,  # noqa: ARG001  # registered functions are always preferred here
) -> Any:
    """Prepare models and optimizers for a level; return them as they came (one, a list, or with None).

    `combine_ddp` averages gradients over the ranks in place of DistributedDataParallel. `combine_grad`
    and `check_combined_tensors` change how fast a chip works, not the result. Raises RuntimeError for a
    model that is not on the npu, has float16 weights already or is wrapped for several devices too early,
    and for options that contradict the level.
    """
    if not enabled:
        return models if optimizers is None else (models, optimizers)
    level = resolve(
        opt_level,
        cast_model_type=cast_model_type,
        patch_torch_functions=patch_torch_functions,
        keep_batchnorm_fp32=keep_batchnorm_fp32,
        master_weights=master_weights,
        loss_scale=loss_scale,
    )
    for model in _listed(models):
        _check_model(model)
        casting.convert_model(model, level, cast_model_outputs)
    if _STATE.level is not None and _STATE.level.patch_torch_functions:
        casting.stop_casting_functions()
    _STATE.level, _STATE.verbosity = level, verbosity
    _STATE.scalers = [LossScaler(level.loss_scale, min_loss_scale, max_loss_scale) for _ in range(num_losses)]
    for optimizer in _listed(optimizers):
        state: Any = optimizer
        state._amp_stash = AmpState(optimizer, master_weights=bool(level.master_weights), combine_ddp=bool(combine_ddp))
    if level.patch_torch_functions:
        _patch_registered()
        casting.cast_functions()
        STATE.options[_CASTS] = True
    _announce(level)
    return models if optimizers is None else (models, optimizers)


def _listed(values: Any) -> list[Any]:
    if values is None:
        return []
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _check_model(model: nn.Module) -> None:
    if isinstance(model, (nn.parallel.DistributedDataParallel, nn.DataParallel)):
        raise RuntimeError(
            f"Incoming model is an instance of {type(model).__module__}.{type(model).__name__}. "
            "Parallel wrappers should only be applied to the model(s) AFTER \nthe model(s) have been returned from "
            "amp.initialize."
        )
    for name, parameter in model.named_parameters():
        if not parameter.is_floating_point():
            continue
        if parameter.device.type == "cpu":
            raise RuntimeError(
                f"Found param {name} with type {parameter.type()}, expected a parameter on the npu.\nWhen using "
                "amp.initialize, you need to provide a model with parameters\nlocated on a NPU device before passing "
                "it no matter what optimization level\nyou chose. Use model.to('npu') to use the default device."
            )
        if parameter.dtype is torch.float16:
            raise RuntimeError(
                f"Found param {name} with type {parameter.type()}, expected torch.npu.FloatTensor.\nWhen using "
                "amp.initialize, you do not need to call .half() on your model\nbefore passing it, no matter what "
                "optimization level you choose."
            )


def _announce(level: Level) -> None:
    if _STATE.verbosity:
        scale = "dynamic" if _STATE.scalers[0].dynamic else _STATE.scalers[0].loss_scale()
        say(f"Selected optimization level {level.opt_level}:  {level.text}.")
        for name in ("cast_model_type", "patch_torch_functions", "keep_batchnorm_fp32", "master_weights"):
            say(f"{name:<23}: {getattr(level, name)}")
        say(f"{'loss_scale':<23}: {scale}")


@contextlib.contextmanager
def scale_loss(
    loss: Any,
    optimizers: Any,
    loss_id: int = 0,
    model: Any = None,  # noqa: ARG001  # apex's, which does not use it either
    delay_unscale: bool = False,
    delay_overflow_check: bool = False,
) -> Iterator[Any]:
    """Yield the loss (0-dim float32) times the scale; at the end of the block, unscale the gradients.

    After an overflow the next `step` of the optimizers does nothing and a dynamic scale is halved.
    `delay_unscale` leaves the gradients scaled, for accumulation. Raises RuntimeError before `initialize`.
    """
    level = _STATE.level
    if level is None:
        raise RuntimeError(
            "Invoked 'with amp.scale_loss`, but internal Amp state has not been initialized.  "
            "model, optimizer = amp.initialize(model, optimizer, opt_level=...) must be called before "
            "`with amp.scale_loss`."
        )
    states = [_state_of(optimizer) for optimizer in _listed(optimizers)]
    scaler = _STATE.scalers[loss_id]
    scale = scaler.loss_scale()
    if not scaler.dynamic and scale == 1.0 and not level.master_weights:
        yield loss.float()
        _forget_casts(level)
        return
    for state in states:
        state.prepare(scale)
    scaler.clear_overflow_state()
    yield loss.float() * scale
    _forget_casts(level)
    if delay_unscale:
        for state in states:
            state.scaled = True
        return
    for state in states:
        state.unscale(scaler)
    if not delay_overflow_check and scaler.update_scale():
        for state in states:
            state.skip_next_step()
        if _STATE.verbosity:
            say(
                f"Gradient overflow.  Skipping step, loss scaler {loss_id} reducing loss scale to {scaler.loss_scale()}"
            )


def _state_of(optimizer: Optimizer) -> AmpState:
    state = getattr(optimizer, _MASTERS, None)
    if not isinstance(state, AmpState):
        raise RuntimeError(
            f"{type(optimizer).__name__} was not given to amp.initialize; pass every optimizer that scale_loss gets."
        )
    return state


def _forget_casts(level: Level) -> None:
    if level.patch_torch_functions:
        torch.clear_autocast_cache()


def master_params(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    """Yield the weights that the optimizer updates: masters where there are masters."""
    for group in optimizer.param_groups:
        yield from group["params"]


def state_dict(destination: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return each loss's scale and steps since its last change, under `loss_scaler0` and so on."""
    found = {} if destination is None else destination
    for index, scaler in enumerate(_STATE.scalers):
        found[f"loss_scaler{index}"] = scaler.state_dict()
    return found


def load_state_dict(state: dict[str, Any]) -> None:
    """Go on with the scales of `state_dict`; says when their number differs. Raises RuntimeError on other keys."""
    unexpected = [key for key in state if not key.startswith("loss_scaler")]
    if unexpected:
        raise RuntimeError("Error(s) in loading state_dict. Unexpected key(s) in state_dict: " + ", ".join(unexpected))
    if len(state) != len(_STATE.scalers):
        say(
            f"Warning: state_dict contains {len(state)} entries, while {len(_STATE.scalers)} loss_scalers are used by "
            "amp.initialize."
        )
    for scaler, key in zip(_STATE.scalers, sorted(state, key=lambda name: int(name[11:])), strict=False):
        scaler.load_state_dict(state[key])


def init(enabled: bool = True, **_options: Any) -> None:
    """Refuse: the handle of apex's first interface is not there; `initialize` does what it did."""
    raise NotImplementedError("apex.amp.init, apex's first interface, is not emulated; use apex.amp.initialize.")


def _register(module: Any, name: str, cast: Callable[[Any], Any]) -> None:
    if not hasattr(module, name):
        raise ValueError(f"No function named {name} in module {module}.")
    _STATE.registered.append((module, name, cast))


def _patch_registered() -> None:
    for module, name, cast in _STATE.registered:
        setattr(module, name, cast(getattr(module, name)))
    _STATE.registered.clear()


def register_half_function(module: Any, name: str) -> None:
    """Let `module.name` get float16 under O1. Call it before `initialize`. Raises ValueError for an unknown name."""
    _register(module, name, half_function)


def register_float_function(module: Any, name: str) -> None:
    """Let `module.name` get float32 under O1. Call it before `initialize`. Raises ValueError for an unknown name."""
    _register(module, name, float_function)


def register_promote_function(module: Any, name: str) -> None:
    """Let `module.name` get the widest dtype of its arguments under O1. Raises ValueError for an unknown name."""
    _register(module, name, promote_function)
