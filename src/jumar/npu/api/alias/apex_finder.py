"""`import apex` on the npu: the finder of `jumar.amp`, with the device's own modules behind it."""

from __future__ import annotations

from jumar.amp.apex import finder


def install() -> bool:
    """Let `import apex` resolve to the emulator in this process; return whether it does."""
    return finder.install_from("jumar.npu.api.apex", "the emulated NPU")
