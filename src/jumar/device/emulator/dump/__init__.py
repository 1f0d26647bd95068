"""What operators of the emulated NPU saw and gave, written to disk in the forms the vendor's documents describe.

`acl_dump`: `torch.npu.init_dump` and its like, a file an argument. `dumper`: `torch.utils.dumper`, one HDF5
file. `debug`: `DumpConfig`, operators that overflow. `aoe`: `torch.npu.set_aoe`, descriptions for tuning.
`calls` observes, through the device's listeners, for all of them.
"""

from __future__ import annotations

from jumar.device.emulator.dump.acl_dump import finalize_dump, init_dump, set_dump
from jumar.device.emulator.dump.aoe import set_aoe
from jumar.device.emulator.dump.debug import DumpConfig
from jumar.device.emulator.dump.dumper import dumper
from jumar.device.emulator.dump.follow import install

__all__ = ["DumpConfig", "dumper", "finalize_dump", "init_dump", "install", "set_aoe", "set_dump"]
