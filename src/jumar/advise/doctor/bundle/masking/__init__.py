"""Masking of what must not leave the machine: secrets, names of hosts and users, addresses.

`Masker` first learns the names of all texts, then masks each line; the same name has the same alias everywhere.
"""

from __future__ import annotations

from jumar.advise.doctor.bundle.masking.masker import Masker
from jumar.advise.doctor.bundle.masking.names import Own

__all__ = ["Masker", "Own"]
