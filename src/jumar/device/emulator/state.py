"""What the emulated device is like right now: one object that every part of the emulator reads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class State:
    """Settings and switches of the emulator in this process."""

    active: bool = False
    soc: str = "Ascend910B1"
    num_devices: int = 8
    detour: bool = False
    """True sends every operator through the general path, which serves listeners and device indices above 0."""
    multiple: bool = False
    """True once a device index above 0 has been used."""
    on_multiple: list[Callable[[], None]] = field(default_factory=list)
    """Called in order when `multiple` becomes true: what teaches Python the logical devices."""
    listeners: list[Callable[..., Any]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    """What `set_option` and `set_compile_mode` were given."""

    def settings(self) -> tuple[str, int, dict[str, Any]]:
        """Return what a block may change and `restore` puts back."""
        return self.soc, self.num_devices, dict(self.options)

    def restore(self, settings: tuple[str, int, dict[str, Any]]) -> None:
        """Put back what `settings` returned."""
        self.soc, self.num_devices, self.options = settings

    def refresh(self) -> None:
        """Recompute `detour` after a change to what it depends on."""
        self.detour = self.multiple or bool(self.listeners)


class _Current(threading.local):
    device: int = 0
    last: int | None = None


STATE = State()
CURRENT = _Current()
"""`CURRENT.device` is the calling thread's logical device, `CURRENT.last` the one its last operator ran on."""
