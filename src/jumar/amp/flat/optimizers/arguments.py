"""Checks of optimizer arguments, with the messages of `torch.optim`, which the vendor's optimizers use too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

RMSPROP_LATE_OPTIONS = {"momentum": 0, "centered": False}
"""Options of RMSprop that came later than the first checkpoints, with the values that these mean."""


def check_learning_rate(value: float) -> None:
    """Raise ValueError for a negative learning rate."""
    if value < 0.0:
        raise ValueError(f"Invalid learning rate: {value}")


def check_epsilon(value: float) -> None:
    """Raise ValueError for a negative epsilon."""
    check_not_negative("epsilon", value)


def check_betas(values: Sequence[float]) -> None:
    """Raise ValueError unless both decay rates are in [0, 1)."""
    for position in range(2):
        if not 0.0 <= values[position] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {position}: {values[position]}")


def check_not_negative(name: str, value: float) -> None:
    """Raise ValueError for a negative option."""
    if value < 0.0:
        raise ValueError(f"Invalid {name} value: {value}")


def rmsprop_defaults(
    lr: float, alpha: float, eps: float, weight_decay: float, momentum: float, centered: bool
) -> dict[str, Any]:
    """Return the options of RMSprop by name. Raises ValueError for one that is negative."""
    check_learning_rate(lr)
    check_epsilon(eps)
    check_not_negative("momentum", momentum)
    check_not_negative("weight_decay", weight_decay)
    check_not_negative("alpha", alpha)
    given = {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered}
    return {**given, "weight_decay": weight_decay}


def bert_adam_defaults(
    lr: float,
    warmup: float,
    t_total: int,
    schedule: str,
    b1: float,
    b2: float,
    e: float,
    weight_decay: float,
    max_grad_norm: float,
    schedules: Sequence[str],
) -> dict[str, Any]:
    """Return the options of BertAdam by name. Raises ValueError for one that is out of range."""
    if isinstance(lr, float | int):
        check_learning_rate(lr)
    if (warmup < 0.0 and warmup != -1) or warmup >= 1.0:
        raise ValueError(f"Invalid warmup: {warmup}")
    if schedule not in schedules:
        raise ValueError(f"Invalid schedule parameter: {schedule}")
    for name, value in (("b1", b1), ("b2", b2)):
        if not 0.0 <= value < 1.0:
            raise ValueError(f"Invalid {name} parameter: {value}")
    check_epsilon(e)
    rates = {"lr": lr, "schedule": schedule, "warmup": warmup, "t_total": t_total, "b1": b1, "b2": b2, "e": e}
    return {**rates, "weight_decay": weight_decay, "max_grad_norm": max_grad_norm}
