"""What other rooms and `jumar.amp` tell each other: a chip's overflow flag, and the end of each scaled step.

It imports no torch, so that rooms can register before a program does anything.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol


class OverflowFlag(Protocol):
    """The flag of a chip whose results saturate: an overflow leaves no Inf behind, only this flag."""

    def saturates(self) -> bool:
        """Return whether results saturate now; if not, the flag says nothing and is not asked."""

    def clear(self) -> None:
        """Lower the flag."""

    def is_up(self) -> bool:
        """Return whether an operator overflowed since `clear`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHooks:
    """What a room registers for one device type."""

    flag: OverflowFlag | None = None
    on_casts: Callable[[], None] | None = None
    """Called when O1 begins to cast functions on the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledStep:
    """One call of `step` of an optimizer that `initialize` prepared, just before the update or in its place."""

    optimizer: Any
    loss_scale: float
    """The scale that the losses of the step were multiplied with."""
    skipped: bool
    origin: str
    """`SkippedStep.origin`; empty where nothing is known."""


class Watcher(Protocol):
    """What an observer of a program wants to know."""

    def before_amp_step(self, step: ScaledStep) -> None:
        """A prepared optimizer is about to update its parameters, or leaves the update out."""

    def amp_at_work(self) -> AbstractContextManager[None]:
        """Return the context within which gradients are unscaled and looked at."""


_DEVICES: dict[str, DeviceHooks] = {}
_WATCHERS: list[Watcher] = []


def register_device(device_type: str, hooks: DeviceHooks) -> None:
    """Let `jumar.amp` ask `hooks` about models on `device_type`; the last registration counts."""
    _DEVICES[device_type] = hooks


def hooks_of(device_type: str) -> DeviceHooks:
    """Return what was registered for a device type; the installed `torch_npu` answers for "npu" otherwise."""
    found = _DEVICES.get(device_type)
    if found is None and device_type == "npu" and "torch_npu" in sys.modules:
        return DeviceHooks(flag=_VendorFlag(sys.modules["torch_npu"].npu.utils))
    return found or DeviceHooks()


class _VendorFlag:
    """The flag of a real NPU (`torch_npu.npu.utils`)."""

    def __init__(self, utils: Any) -> None:
        self._utils = utils

    def saturates(self) -> bool:
        return not self._utils.is_support_inf_nan()

    def clear(self) -> None:
        self._utils.clear_npu_overflow_flag()

    def is_up(self) -> bool:
        return bool(self._utils.get_npu_overflow_flag())


def watch(watcher: Watcher) -> Callable[[], None]:
    """Tell `watcher` of every step from now on; return the function that ends it."""
    _WATCHERS.append(watcher)
    return lambda: _WATCHERS.remove(watcher)


def tell(step: ScaledStep) -> None:
    """Tell all watchers of a step."""
    for watcher in tuple(_WATCHERS):
        watcher.before_amp_step(step)


@contextmanager
def at_work() -> Iterator[None]:
    """Let watchers know that what runs in the block is not the program's but belongs to its optimizers."""
    with ExitStack() as stack:
        for watcher in tuple(_WATCHERS):
            stack.enter_context(watcher.amp_at_work())
        yield
