"""`torch.npu`'s functions that write what operators saw and gave."""

from __future__ import annotations

from jumar.device.emulator.dump import finalize_dump, init_dump, set_aoe, set_dump

__all__ = ["finalize_dump", "init_dump", "set_aoe", "set_dump"]
