"""Set options of the vendor's runtime from inside the emulator, and tell the parts that depend on them."""

from __future__ import annotations

from collections.abc import Mapping

from jumar.device.emulator.state import STATE


def set_options(options: Mapping[str, str]) -> None:
    """Keep options under the vendor's names; the parts of the emulator that depend on settings are told."""
    if all(STATE.options.get(name) == value for name, value in options.items()):
        return
    STATE.options.update(options)
    for told in STATE.on_settings:
        told()
