"""Random operators on DTensors: PyTorch steers them by the offset in a device generator's state, which npu ones lack.

PyTorch reads a device's state as a seed and an offset, moves the offset by the shard before an operator and by the
whole tensor after it. An npu tensor draws from a CPU generator, whose state has no offset: here a moved offset
means the state that the old state and the offset are hashed to. Shards so draw different numbers, replicas the
same, and afterwards all ranks are in step; the numbers are not those of one device.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch

Tensor = torch.Tensor

_MODULE = "torch.distributed.tensor._random"
_PACKED_BYTES = 16
"""Size of the state of a device that has seed and offset in it."""


class DrawState:
    """A CPU generator's state with an offset, which is 0 when it is made."""

    def __init__(self, state: Tensor) -> None:
        self._state = state.to("cpu")
        self.offset = torch.zeros(1, dtype=torch.int64, device="cpu")

    @property
    def state(self) -> Tensor:
        """What to give to the generator: the state itself where the offset is 0."""
        offset = int(self.offset.item())
        if not offset:
            return self._state
        digest = hashlib.blake2b(self._state.numpy().tobytes() + offset.to_bytes(8, "little"), digest_size=8).digest()
        generator = torch.Generator(device="cpu").manual_seed(int.from_bytes(digest, "little", signed=True))
        return generator.get_state()


def _steer(module: Any) -> None:
    packed = getattr(module, "_PhiloxState", None)
    if packed is None:  # PyTorch before 2.9: random operators on DTensors are left as they are
        return

    def of(state: Tensor) -> Any:
        return packed(state) if state.numel() == _PACKED_BYTES else DrawState(state)

    module._PhiloxState = of


class _Finder:
    """Steers the module when it is imported: DTensor takes more than a second to import."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None) -> Any:
        if name != _MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        loader: Any = spec.loader if spec is not None else None
        if loader is not None:
            loader.exec_module = _then_steer(loader.exec_module)
        return spec


def _then_steer(execute: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    def exec_module(module: ModuleType) -> None:
        execute(module)
        _steer(module)

    return exec_module


def install() -> None:
    """Have DTensor's random operators work on npu, whether it has been imported or not."""
    if _MODULE in sys.modules:
        _steer(sys.modules[_MODULE])
    else:
        sys.meta_path.insert(0, _Finder())
