"""Collection of operators that overflow: `DumpConfig`, after the class of the TensorFlow adapter.

    with DumpConfig(enable_dump_debug=True, dump_path="output", dump_debug_mode="all"):
        loss.backward()

An operator overflows when its inputs are finite and its result is not, or would not be where the chip
saturates (`numerics.overflow`). From Ascend910B1 on the mode has to be `all`.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jumar.base.errors import InputError, UsageError
from jumar.base.files import explained
from jumar.npu.dump.calls import Observer, OperatorCall, observe
from jumar.npu.dump.config import SIDES, DumpMode
from jumar.npu.dump.folder import DumpFolder
from jumar.npu.numerics import overflow
from jumar.npu.numerics.overflow import Mode, Overflow

_ALL = SIDES["all"]


@dataclass(slots=True, kw_only=True)
class DumpConfig:
    """What to collect, as a context manager; it can be entered again.

    `enable_dump` writes every operator (`dump_mode`: `input`, `output` or `all`), `enable_dump_debug` those
    that overflow (`dump_debug_mode`: `all`, `aicore_overflow` or `atomic_overflow`), with inputs, outputs and
    a description. Raises UsageError when both or neither are on or a mode is none, InputError for a folder that
    is not there; entering raises DeviceError for a mode the chip does not have or a dump that is on already.
    """

    enable_dump: bool = False
    dump_path: str | Path = ""
    dump_mode: DumpMode = "output"
    enable_dump_debug: bool = False
    dump_debug_mode: Mode = "all"
    makes_folder: bool = False
    """Make the folder where it is missing, rather than say so."""
    overflows: list[Overflow] = field(default_factory=list)
    """What was found, in order."""
    _stack: contextlib.ExitStack | None = None

    def __post_init__(self) -> None:
        """Check the combination."""
        if self.enable_dump and self.enable_dump_debug:
            raise UsageError("enable_dump and enable_dump_debug must not both be on; got both: turn one off.")
        if not self.enable_dump and not self.enable_dump_debug:
            raise UsageError(
                "a DumpConfig must collect something; got neither enable_dump nor enable_dump_debug: set one."
            )
        if self.dump_mode not in SIDES:
            raise UsageError(f"dump_mode must be input, output or all; got {self.dump_mode!r}: choose one.")
        if not self.makes_folder and not Path(self.dump_path or "-").is_dir():
            raise InputError(f"dump_path must be a folder that exists; got {str(self.dump_path)!r}: create it first.")

    def __enter__(self) -> DumpConfig:
        """Begin to collect."""
        path = Path(self.dump_path).absolute()
        with explained(path):
            path.mkdir(parents=True, exist_ok=True)
        folder = DumpFolder(path)
        stack = contextlib.ExitStack()
        if self.enable_dump_debug:

            def found(call: OperatorCall, what: Overflow) -> None:
                self.overflows.append(what)
                folder.write(call, _ALL, {"overflow.json": _description(call, what)})

            stack.enter_context(overflowing(self.dump_debug_mode, found))
        else:
            sides = SIDES[self.dump_mode]
            stack.enter_context(exclusive())
            stack.enter_context(observe(lambda call: _drop(folder.write(call, sides))))
        self._stack = stack
        return self

    def __exit__(self, *_: object) -> None:
        """End the collection. What has been written stays."""
        if self._stack is not None:
            self._stack.close()
            self._stack = None


def _drop(_: Any) -> None:
    """Ignore a result."""


@contextlib.contextmanager
def exclusive() -> Iterator[None]:
    """Hold the device's dump: it collects data or overflows, not both. Raises DeviceError while it does the other."""
    overflow.set_dumping(True)
    try:
        yield
    finally:
        overflow.set_dumping(False)


def _description(call: OperatorCall, what: Overflow) -> bytes:
    tensors = {
        name: {"shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}
        for name, tensor in (*call.inputs.items(), *call.outputs.items())
    }
    table = {"operator": what.operator, "kind": what.kind, "device": call.event.device_index, "tensors": tensors}
    return (json.dumps(table, indent=1) + "\n").encode()


@contextlib.contextmanager
def overflowing(mode: Mode, found: Any) -> Iterator[None]:
    """Call `found(call, overflow)` for every operator that overflows within the block.

    Raises DeviceError for a mode that the chip does not have, and while data of operators is dumped.
    """
    pending = threading.local()

    def flagged(what: Overflow) -> None:
        pending.what = what

    def look(call: OperatorCall) -> None:
        what = getattr(pending, "what", None)
        pending.what = None
        if what is not None:
            found(call, what)

    observer: Observer = look
    before = overflow.mode()
    overflow.set_mode(mode)
    try:
        with overflow.watch(flagged), observe(observer):
            yield
    finally:
        overflow.set_mode(before)
