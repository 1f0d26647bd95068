"""`counted`, under the name it had before `jumar.base.text`."""

from __future__ import annotations

from jumar.base.text.digits import counted

__all__ = ["counted"]
