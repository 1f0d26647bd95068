"""`torch.npu.init_dump`, `set_dump`, `finalize_dump`: inputs and outputs of single operators, as files.

The calls set the vendor's options (`mdldumpswitch`, `mdldumpconfigpath`); dumping follows the options, so
`torch.npu.set_option` works too and the end of an `emulate` block ends it.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path

from jumar.base.errors import DeviceError
from jumar.npu.core.state import STATE, set_options
from jumar.npu.dump import config
from jumar.npu.dump.calls import OperatorCall, observe
from jumar.npu.dump.config import SIDES, DumpSettings
from jumar.npu.dump.debug import DumpConfig, exclusive
from jumar.npu.dump.folder import DumpFolder
from jumar.npu.numerics import overflow

SWITCH, FILE = "mdldumpswitch", "mdldumpconfigpath"


def init_dump() -> None:
    """Get ready to dump; `set_dump` begins."""
    set_options({SWITCH: "enable", FILE: ""})


def set_dump(cfg_file: str | Path) -> None:
    """Dump what the JSON file asks for, from now on.

    Raises InputError for a file that is not there or says something wrong, DeviceError without `init_dump`
    before and while overflows are collected, OutputError where the folder cannot be written.
    """
    if STATE.options.get(SWITCH) != "enable":
        raise DeviceError("a dump must be initialised before it is set; got set_dump alone: call init_dump() first.")
    settings = config.read(cfg_file)
    if not settings.operators and not settings.debug:
        warnings.warn(f'{cfg_file} dumps nothing, because dump_op_switch is "off"; set it to "on".', stacklevel=2)
    if overflow.mode() is not None:
        overflow.set_dumping(True)  # which raises: nothing is changed then
    set_options({FILE: str(Path(cfg_file).absolute())})


def finalize_dump() -> None:
    """End the dump. What has been written stays."""
    set_options({SWITCH: "disable", FILE: ""})


@contextlib.contextmanager
def dumping(settings: DumpSettings) -> Iterator[None]:
    """Dump within the block what `settings` ask for."""
    with contextlib.ExitStack() as stack:
        if settings.debug:
            config_of_debug = DumpConfig(enable_dump_debug=True, dump_path=settings.path, makes_folder=True)
            stack.enter_context(config_of_debug)
        elif settings.operators:
            folder, sides = DumpFolder(settings.path), SIDES[settings.mode]

            def write(call: OperatorCall) -> None:
                folder.write(call, sides)

            stack.enter_context(exclusive())
            stack.enter_context(observe(write))
        yield
