"""Proof that a conversion broke nothing, without running it: see `verify`."""

from __future__ import annotations

from jumar.migrate.verify.run import verify, verify_file

__all__ = ["verify", "verify_file"]
