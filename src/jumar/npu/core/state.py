"""`STATE`: the settings and switches of the emulated device, read by every part of the emulator."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jumar.soc import DEFAULT_SOC
from jumar.soc.profiles import SocProfile, get_soc

Numerics = Literal["strict", "exact"]
Unsupported = Literal["warn", "error", "fallback"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a plan or an `emulate` block chooses; the fields are those of `DevicePlan`."""

    soc: str = DEFAULT_SOC
    num_devices: int = 8
    numerics: Numerics = "strict"
    unsupported: Unsupported = "warn"
    memory_bytes: int | None = None
    single_device: bool = False


@dataclass(slots=True)
class State:
    """Settings and switches of the emulator in this process."""

    active: bool = False
    settings: Settings = field(default_factory=Settings)
    on_settings: list[Callable[[], None]] = field(default_factory=list)
    """Called in order after the settings have changed: parts that derive something from them."""
    detour: bool = False
    """True sends every operator through the general path, which serves listeners and device indices above 0."""
    multiple: bool = False
    """True once a device index above 0 has been used."""
    on_multiple: list[Callable[[], None]] = field(default_factory=list)
    """Called in order when `multiple` becomes true: what teaches Python the logical devices."""
    listeners: list[Callable[..., Any]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    """What `set_option`, `set_compile_mode` and the switches of `torch.npu` were given, by name."""

    @property
    def soc(self) -> str:
        """CANN name of the chip."""
        return self.profile.name

    @property
    def profile(self) -> SocProfile:
        """The chip."""
        return _profile(self.settings.soc)

    @property
    def num_devices(self) -> int:
        """Logical devices of the machine."""
        return self.settings.num_devices

    def apply(self, settings: Settings) -> None:
        """Take other settings and tell the parts that depend on them."""
        if settings == self.settings:
            return
        self.settings = settings
        self.refresh()
        for told in self.on_settings:
            told()

    def saved(self) -> tuple[Settings, dict[str, Any]]:
        """Return what a block may change and `restore` puts back."""
        return self.settings, dict(self.options)

    def restore(self, saved: tuple[Settings, dict[str, Any]]) -> None:
        """Put back what `saved` returned."""
        settings, options = saved
        changed = options != self.options
        self.options = options
        if settings != self.settings:
            self.apply(settings)
        elif changed:
            for told in self.on_settings:
                told()

    def refresh(self) -> None:
        """Recompute `detour` after a change to what it depends on."""
        self.detour = self.multiple or bool(self.listeners) or self.settings.single_device


_profile = functools.cache(get_soc)


class _Current(threading.local):
    device: int = 0
    last: int | None = None
    bound: tuple[Settings, int] | None = None


STATE = State()
CURRENT = _Current()
"""`CURRENT.device` is the calling thread's logical device, `CURRENT.last` the one its last operator ran on.

`CURRENT.bound` is the device the thread is held to, with the settings that hold it.
"""


def set_options(options: Mapping[str, str]) -> None:
    """Keep options under the vendor's names; the parts of the emulator that depend on settings are told."""
    if all(STATE.options.get(name) == value for name, value in options.items()):
        return
    STATE.options.update(options)
    for told in STATE.on_settings:
        told()
