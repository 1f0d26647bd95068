"""The files of a profile, in the layout and with the columns of the vendor's."""

from __future__ import annotations

from jumar.device.emulator.profiler.files.write import write_chrome_trace, write_stacks, write_text

__all__ = ["write_chrome_trace", "write_stacks", "write_text"]
