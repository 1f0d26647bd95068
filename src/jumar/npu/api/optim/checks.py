"""Checks of optimizer arguments, with the messages of `torch.optim`, which the vendor's optimizers use too."""

from __future__ import annotations

from collections.abc import Sequence


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
