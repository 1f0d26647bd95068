"""Seeds and generator states. All logical devices draw from the CPU's default generator (see `rng`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from jumar.npu.core.devices import index_from, num_visible

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def manual_seed(seed: int) -> None:
    """Seed the generator that npu operators draw from."""
    torch.default_generator.manual_seed(int(seed))


manual_seed_all = manual_seed


def seed() -> None:
    """Seed with a random number."""
    torch.default_generator.seed()


seed_all = seed


def initial_seed() -> int:
    """Return the current seed."""
    return torch.default_generator.initial_seed()


def get_rng_state(device: Any = "npu") -> torch.Tensor:
    """Return the state of the device's generator, a CPU tensor of bytes."""
    index_from(device)
    return torch.default_generator.get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = "npu") -> None:
    """Set the state of the device's generator."""
    index_from(device)
    torch.default_generator.set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """Return one state per device; they are equal."""
    return [get_rng_state(index) for index in range(num_visible())]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Set the states that `get_rng_state_all` returned."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
