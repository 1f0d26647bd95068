"""Memory formats of the emulated NPU: what each tensor's memory is laid out as, and what converting costs.

Values never move: the CPU kernels read plain dense memory. What is emulated is the state (`state`), the
padded size (`shapes`), the rules by which operators choose formats (`rules`) and the vendor's functions
(`cast`). The ledger (`jumar.device.emulator.ledger`) applies the rules to operators as they run.
"""

from __future__ import annotations

from jumar.device.emulator.formats.names import BASE_FORMATS, Format, base_of_rank
from jumar.device.emulator.formats.state import format_of

__all__ = ["BASE_FORMATS", "Format", "base_of_rank", "format_of"]
