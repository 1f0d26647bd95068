"""`apex.amp`: the functions of `jumar.amp`."""

from __future__ import annotations

from jumar.amp import api
from jumar.amp.api import *  # noqa: F403  # the names of api.__all__

__all__ = list(api.__all__)
