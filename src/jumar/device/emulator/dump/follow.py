"""Dumps follow the options of the vendor's runtime: what they say is on, and no more."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from jumar.device.emulator import plans
from jumar.device.emulator.dump import acl_dump, aoe, calls, config
from jumar.device.emulator.dump.dumper import dumper
from jumar.device.emulator.state import STATE

Opens = Callable[[str], contextlib.AbstractContextManager[None]]

_PARTS: tuple[tuple[str, str, Opens], ...] = (
    (acl_dump.SWITCH, acl_dump.FILE, lambda file: acl_dump.dumping(config.read(file))),
    (aoe.SWITCH, aoe.FOLDER, lambda folder: aoe.describing(Path(folder))),
)
"""Switch, where to, and what is on between them."""

_open: dict[str, tuple[str, contextlib.AbstractContextManager[None]]] = {}


def refresh() -> None:
    """Begin and end dumps as the options say now."""
    for switch, place, opens in _PARTS:
        value = STATE.options.get(place) if STATE.options.get(switch) == "enable" else None
        wanted = value or None
        current = _open.get(switch)
        if current is not None and current[0] != wanted:
            del _open[switch]
            current[1].__exit__(None, None, None)
        if wanted is not None and switch not in _open:
            block = opens(wanted)
            block.__enter__()
            _open[switch] = (wanted, block)


def install() -> None:
    """Let options begin dumps, and give `torch.utils` its `dumper`. Called once, when the device comes up."""
    plans.LAYERS.append(calls.layer)
    STATE.on_settings.append(refresh)
    utils: Any = torch.utils
    utils.dumper = dumper
