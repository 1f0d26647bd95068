"""`Side`: names, shapes and values of one program, from a checkpoint or a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

Framework = Literal["pytorch", "mindspore", "tensorflow"]


@dataclass(frozen=True, slots=True)
class Info:
    """What is known of a tensor without its values."""

    shape: tuple[int, ...]
    dtype: str
    """PyTorch's name without `torch.`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a map."""

    label: str
    """The path or the factory, as the user wrote it."""
    framework: Framework
    tensors: Mapping[str, Info]
    """By name, in the order of the program."""
    read: Callable[[str], torch.Tensor]
    """Gives the values of a tensor, on the CPU."""
    classes: Mapping[str, str] = field(default_factory=dict)
    """Classes of modules by path; empty for a checkpoint, which does not tell them."""
    ties: Mapping[str, str] = field(default_factory=dict)
    """Names of tensors that are another one: its first name."""
    program: Any = None
    """A model that can be run (see `verify`); None for a checkpoint."""


def of_state(label: str, state: Mapping[str, torch.Tensor], framework: Framework = "pytorch", **more: Any) -> Side:
    """Return a side of tensors in memory."""
    return Side(
        label=label,
        framework=framework,
        tensors={
            name: Info(tuple(value.shape), str(value.dtype).removeprefix("torch.")) for name, value in state.items()
        },
        read=lambda name: state[name].detach().cpu(),
        **more,
    )
