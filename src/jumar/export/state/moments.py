"""`moments`: what PyTorch's Adam and SGD remember, under the names of MindSpore's optimizers, where that can be said.

An optimizer's state dict numbers its parameters. Which number is which name is certain where the groups say it
(`param_names`, PyTorch 2.7 and later). With one group the numbers are in the model's order, and shapes must agree. With
several groups without names the order is that of the groups, which the file does not tell: nothing is taken over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from jumar.export.tensors import Deferred, TensorInfo, held

_BUFFERS = {"running_mean", "running_var", "num_batches_tracked"}
_KEYS = ("optimizer", "optim", "optimizer_state_dict", "optimizer_state", "opt")


@dataclass(slots=True, kw_only=True)
class Moments:
    """An optimizer's tensors under MindSpore's names."""

    tensors: dict[str, Deferred] = field(default_factory=dict)
    taken: str = ""
    """Where the optimizer is in the checkpoint."""
    reason: str = ""
    """Why nothing was taken over; empty where something was."""


def moments(rest: Any, state: Mapping[str, Any], names: Mapping[str, str]) -> Moments:
    """Return the tensors of the optimizer in `rest`.

    `state` are the model's tensors under PyTorch's names, `names` MindSpore's names by PyTorch's.
    """
    found = dict(_optimizers(rest))
    where = next((key for key in _KEYS if key in found), next(iter(found), ""))
    if not where:
        return Moments(reason="the checkpoint holds no optimizer that MindSpore has names for")
    if len(found) > 1 and where not in _KEYS:
        return Moments(reason=f"it holds several optimizers ({', '.join(found)})")
    optimizer = found[where]
    order, reason = _order(optimizer, state)
    if reason:
        return Moments(reason=reason)
    kinds = {"exp_avg": "moment1", "exp_avg_sq": "moment2", "momentum_buffer": "moments"}
    made = Moments(taken=where)
    for number, name in order.items():
        for key, value in optimizer["state"].get(number, {}).items():
            if key not in kinds or not isinstance(value, Deferred) or name not in names:
                continue
            if value.shape != state[name].shape:
                return Moments(reason=f"the state of {name!r} has another shape than the parameter")
            made.tensors[f"{kinds[key]}.{names[name]}"] = value
    if not made.tensors:
        return Moments(reason=f"{where} holds no moments that MindSpore has names for")
    made.tensors |= _counters(optimizer)
    return made


def _optimizers(rest: Any, way: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    if not isinstance(rest, dict) or depth > 3:
        return
    if isinstance(rest.get("state"), dict) and isinstance(rest.get("param_groups"), list):
        yield way, rest
        return
    for key, item in rest.items():
        yield from _optimizers(item, f"{way}.{key}" if way else str(key), depth + 1)


def _order(optimizer: Any, state: Mapping[str, Any]) -> tuple[dict[Any, str], str]:
    """Return the parameters' names by their numbers, or why they are not known."""
    groups = optimizer["param_groups"]
    if not all(isinstance(group, dict) and isinstance(group.get("params"), list) for group in groups):
        return {}, "the optimizer's groups have no parameters"
    numbers = [number for group in groups for number in group["params"]]
    if all(isinstance(group.get("param_names"), list) for group in groups):
        said = [name.removeprefix("module.") for group in groups for name in group["param_names"]]
    elif len(groups) == 1:
        said = list(_parameters(state))
    else:
        return {}, "the optimizer has several groups, and the file does not say which parameter is in which"
    if len(said) != len(numbers) or not set(said) <= set(state):
        return {}, f"the optimizer has {len(numbers)} parameters and the model {len(said)}"
    return dict(zip(numbers, said, strict=True)), ""


def _parameters(state: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of parameters in the order of `model.parameters()`: without buffers, tied ones once."""
    seen = set()
    for name, value in state.items():
        if not isinstance(value, Deferred) or name.rpartition(".")[2] in _BUFFERS:
            continue
        if value.identity is not None and value.identity in seen:
            continue
        seen.add(value.identity)
        yield name


def _counters(optimizer: Any) -> dict[str, Deferred]:
    """Return the step, and for Adam the powers of its betas, as MindSpore keeps them."""
    steps = {_number(one.get("step")) for one in optimizer["state"].values() if isinstance(one, dict)} - {None}
    if len(steps) != 1:
        return {}
    step = int(steps.pop() or 0)
    made = {"global_step": held(torch.tensor([step], dtype=torch.int32))}
    betas = optimizer["param_groups"][0].get("betas")
    if isinstance(betas, (tuple, list)) and len(betas) == 2 and all(isinstance(beta, float) for beta in betas):
        for at, beta in enumerate(betas, 1):
            made[f"beta{at}_power"] = held(torch.tensor(beta**step, dtype=torch.float32))
    return made


def _number(value: Any) -> float | None:
    if isinstance(value, Deferred) and value.info in {TensorInfo((), torch.float32), TensorInfo((), torch.int64)}:
        return float(value.read())
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
