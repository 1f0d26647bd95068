"""Seeds and generator states."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all"]


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
    """Return the state of the generator, a CPU tensor of bytes."""
    return torch.default_generator.get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = "npu") -> None:
    """Set the state of the generator."""
    torch.default_generator.set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """Return one state per device."""
    from jumar.device.emulator.state import STATE

    return [get_rng_state()] * STATE.num_devices


def set_rng_state_all(new_states: Any) -> None:
    """Set one state per device."""
    for state in new_states:
        set_rng_state(state)
