"""`jumar doctor --bundle`: logs, versions and settings in one archive, without secrets, names and addresses."""

from __future__ import annotations

from jumar.advise.doctor.bundle.gather import gather, own_of
from jumar.advise.doctor.bundle.manifest import Bundle, Content
from jumar.advise.doctor.bundle.pack import check_target, pack

__all__ = ["Bundle", "Content", "check_target", "gather", "own_of", "pack"]
