"""Similar interfaces, applied where the user asks for them (`-sim`): each names what differs.

They run before the rules about torch.cuda, because what they replace no longer needs those. A call whose
arguments have no equal is left and says so; nothing changes a result without a word. Beside them, the device
number from the environment (`-s`).
"""

from __future__ import annotations

from types import ModuleType

from jumar.migrate.rules.similar import attention, device_number, module, optimizer, switch

MODULES: tuple[ModuleType, ...] = (attention, optimizer, module, switch, device_number)
"""Modules with a `RULE` and a `check`, in the order they run."""
