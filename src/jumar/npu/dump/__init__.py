"""Write inputs and outputs of operators to disk, in the forms that the vendor's documents describe.

`acl_dump`: `torch.npu.init_dump` and the calls beside it, a file an argument. `dumper`: `torch.utils.dumper`, one HDF5
file. `debug`: `DumpConfig`, operators that overflow. `aoe`: `torch.npu.set_aoe`, descriptions for tuning.
`calls` observes, through the device's listeners, for all of them. Dumps follow the options of the vendor's runtime:
`refresh` begins and ends them as the options say.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from jumar.npu.core import plans
from jumar.npu.core.state import STATE
from jumar.npu.dump import acl_dump, aoe, calls, config
from jumar.npu.dump.acl_dump import finalize_dump, init_dump, set_dump
from jumar.npu.dump.aoe import set_aoe
from jumar.npu.dump.debug import DumpConfig
from jumar.npu.dump.dumper import dumper

__all__ = ["DumpConfig", "dumper", "finalize_dump", "init_dump", "install", "set_aoe", "set_dump"]

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
