"""Proves that a conversion broke nothing, without running it: `verify`."""

from __future__ import annotations

from jumar.convert.verify.run import verify, verify_file

__all__ = ["verify", "verify_file"]
