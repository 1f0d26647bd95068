"""The back end of `torch.compile`: `torch.compile(model, backend="jumar")` computes what the bank knows as it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader

if TYPE_CHECKING:
    from jumar.tune.backend.entry import jumar

__all__ = ["jumar"]

__getattr__ = loader(__name__, __all__, {"jumar": "jumar.tune.backend.entry"})
__dir__ = directory(__name__, __all__)
