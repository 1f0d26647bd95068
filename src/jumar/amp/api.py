"""`jumar.amp`: mixed precision by optimization level, under Apex's names, on any device.

O1 casts by PyTorch's autocast lists of the models' device, where Apex patches functions one by one: the same
functions get the 16-bit type and float32, up to a few that the two lists treat differently.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.optim import Optimizer

from jumar.amp.cast.casting import disable_casts, float_function, half_function, promote_function
from jumar.amp.cast.levels import Level
from jumar.amp.hooks import at_work
from jumar.amp.scale.origins import PERSISTENT, SkippedStep
from jumar.amp.scale.scaler import LossScaler
from jumar.amp.scale.scales import DynamicLossScale, FixedLossScale
from jumar.amp.setup import initialize, listed
from jumar.amp.state import KEPT_SKIPS, STATE, say
from jumar.amp.step.masters import AmpState
from jumar.amp.step.methods import STASH

__all__ = [
    "DynamicLossScale", "FixedLossScale", "SkippedStep", "clip_grad_norm_", "combined_gradients", "disable_casts",
    "float_function", "grad_scaler_state", "half_function", "init", "initialize", "load_state_dict", "master_params",
    "promote_function", "register_float_function", "register_half_function", "register_promote_function",
    "scale_loss", "skipped_steps", "state_dict",
]  # fmt: skip


@contextlib.contextmanager
def scale_loss(
    loss: Any,
    optimizers: Any,
    loss_id: int = 0,
    model: Any = None,  # noqa: ARG001  # Apex's, which does not use it either
    delay_unscale: bool = False,
    delay_overflow_check: bool = False,
) -> Iterator[Any]:
    """Yield the loss (0-dim float32) times the scale; at the end of the block, unscale the gradients.

    After an overflow the next `step` of the optimizers does nothing and a dynamic scale is reduced.
    `delay_unscale` leaves the gradients scaled, for accumulation; `delay_overflow_check` leaves the decision to the
    loss's next block. Raises RuntimeError before `initialize`, for an optimizer that it was not given, and for a
    `loss_id` without a scaler.
    """
    if STATE.level is None and STATE.disabled:
        yield loss
        return
    level, scaler = _level(), _scaler(loss_id)
    states = [_state_of(optimizer) for optimizer in listed(optimizers)]
    scale = scaler.loss_scale()
    if scale == 1.0 and not scaler.checks and not any(state.works_on_gradients for state in states):
        yield loss.float()
        _forget_casts(level)
        return
    with at_work():
        for state in states:
            state.prepare(scale)
    scaler.clear_overflow_state()
    yield loss.float() * scale
    _forget_casts(level)
    if delay_unscale:
        for state in states:
            state.keep_scaled(scale)
        return
    with at_work():
        for state in states:
            state.unscale(scaler)
    scaler.waiting += states
    if not delay_overflow_check:
        _decide(scaler, loss_id)


def _level() -> Level:
    if STATE.level is None:
        raise RuntimeError(
            "Invoked 'with amp.scale_loss`, but internal Amp state has not been initialized.  "
            "model, optimizer = amp.initialize(model, optimizer, opt_level=...) must be called before "
            "`with amp.scale_loss`."
        )
    return STATE.level


def _scaler(loss_id: int) -> LossScaler:
    if not 0 <= loss_id < len(STATE.scalers):
        raise RuntimeError(
            f"loss_id must be from 0 to {len(STATE.scalers) - 1}; got {loss_id}. Give amp.initialize the number of "
            "losses as num_losses."
        )
    return STATE.scalers[loss_id]


def _decide(scaler: LossScaler, loss_id: int) -> None:
    """Move the scale; after an overflow let the optimizers skip their next step, and say so."""
    states: list[AmpState] = list(dict.fromkeys(scaler.waiting))
    before, number = scaler.loss_scale(), STATE.num_decisions[loss_id]
    STATE.num_decisions[loss_id] += 1
    if not scaler.update_scale():
        return
    for state in states:
        state.skip_next_step()
    skipped = SkippedStep(
        step=number,
        loss_id=loss_id,
        loss_scale=before,
        next_loss_scale=scaler.loss_scale(),
        parameters=tuple(dict.fromkeys(name for state in states for name in state.origins)),
        num_gradients=sum(state.num_gradients for state in states),
    )
    if len(STATE.skipped) < KEPT_SKIPS:
        STATE.skipped.append(skipped)
    if STATE.verbosity:
        say(f"Gradient overflow.  Skipping step, loss scaler {loss_id} reducing loss scale to {scaler.loss_scale()}")
        say(f"{skipped}.")
        if scaler.num_skipped_in_a_row == PERSISTENT:
            say(
                f"{PERSISTENT} steps in a row were skipped, so the scale is not the cause. `jumar record` the script, "
                "then `jumar overflow` names the operator that makes the first NaN or Inf."
            )


def _state_of(optimizer: Optimizer) -> AmpState:
    state = getattr(optimizer, STASH, None)
    if not isinstance(state, AmpState):
        raise RuntimeError(
            f"{type(optimizer).__name__} was not given to amp.initialize; pass every optimizer that scale_loss gets."
        )
    return state


def _forget_casts(level: Level) -> None:
    if level.patch_torch_functions:
        torch.clear_autocast_cache()


def skipped_steps() -> list[SkippedStep]:
    """Return the steps that were skipped since `initialize`, in order, with the parameters they come from."""
    return list(STATE.skipped)


def master_params(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    """Yield the weights that the optimizer updates: masters where there are masters."""
    for group in optimizer.param_groups:
        yield from group["params"]


def combined_gradients(optimizer: Optimizer) -> list[torch.Tensor]:
    """Return the unscaled gradients that the optimizer will read, in flat tensors with `combine_grad=True`.

    What is written into them is written into the gradients. Raises RuntimeError for an optimizer not prepared.
    """
    return _state_of(optimizer).combined_gradients()


@torch.no_grad()
def clip_grad_norm_(optimizer: Optimizer, max_norm: float) -> torch.Tensor:
    """Scale the gradients so that their L2 norm is at most `max_norm`; return the norm before, 0-dim float32.

    As `torch.nn.utils.clip_grad_norm_(master_params(optimizer), max_norm)`, on few tensors with `combine_grad`.
    """
    gradients = combined_gradients(optimizer)
    if not gradients:
        return torch.zeros(())
    norms = torch.stack([torch.linalg.vector_norm(gradient, dtype=torch.float32) for gradient in gradients])
    total = torch.linalg.vector_norm(norms)
    for gradient in gradients:
        gradient.mul_((max_norm / (total + 1e-6)).clamp(max=1.0).to(gradient.dtype))
    return total  # type: ignore[no-any-return]


def state_dict(destination: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return each loss's scale and steps since its last change, under `loss_scaler0` and so on."""
    found = {} if destination is None else destination
    for index, scaler in enumerate(STATE.scalers):
        found[f"loss_scaler{index}"] = scaler.state_dict()
    return found


def grad_scaler_state(loss_id: int = 0) -> dict[str, Any]:
    """Return a loss's scale for `torch.amp.GradScaler.load_state_dict`; `load_state_dict` takes that form back."""
    return _scaler(loss_id).grad_scaler_state()


def load_state_dict(state: dict[str, Any]) -> None:
    """Go on with the scales of `state_dict`, or with that of a `torch.amp.GradScaler`; says when numbers differ.

    Raises RuntimeError on other keys.
    """
    if "scale" in state and "_growth_tracker" in state:
        state = {"loss_scaler0": {"loss_scale": state["scale"], "unskipped": state["_growth_tracker"]}}
    unexpected = [key for key in state if not (key.startswith("loss_scaler") and key[11:].isdigit())]
    if unexpected:
        raise RuntimeError("Error(s) in loading state_dict. Unexpected key(s) in state_dict: " + ", ".join(unexpected))
    if len(state) != len(STATE.scalers):
        say(
            f"Warning: state_dict contains {len(state)} entries, while {len(STATE.scalers)} loss_scalers are used by "
            "amp.initialize."
        )
    for scaler, key in zip(STATE.scalers, sorted(state, key=lambda name: int(name[11:])), strict=False):
        scaler.load_state_dict(state[key])


def init(enabled: bool = True, **_options: Any) -> None:
    """Refuse: the handle of Apex's first interface is not there; `initialize` does what it did."""
    raise NotImplementedError("apex.amp.init, apex's first interface, is not emulated; use apex.amp.initialize.")


def _register(module: Any, name: str, cast: Callable[[Any], Any]) -> None:
    if not hasattr(module, name):
        raise ValueError(f"No function named {name} in module {module}.")
    STATE.registered.append((module, name, cast))


def register_half_function(module: Any, name: str) -> None:
    """Let `module.name` get the 16-bit type under O1. Call it before `initialize`. Raises ValueError for an unknown
    name."""
    _register(module, name, half_function)


def register_float_function(module: Any, name: str) -> None:
    """Let `module.name` get float32 under O1. Call it before `initialize`. Raises ValueError for an unknown name."""
    _register(module, name, float_function)


def register_promote_function(module: Any, name: str) -> None:
    """Let `module.name` get the widest dtype of its arguments under O1. Raises ValueError for an unknown name."""
    _register(module, name, promote_function)
