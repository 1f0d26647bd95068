"""How things are written for a target: one dialect a target, asked by every rule that writes code."""

from __future__ import annotations

from jumar.migrate.options import Target
from jumar.migrate.syntax.source import Source
from jumar.migrate.targets.agnostic import AgnosticDialect
from jumar.migrate.targets.base import Dialect, Rewrite
from jumar.migrate.targets.npu import NpuDialect

__all__ = ["AgnosticDialect", "Dialect", "NpuDialect", "Rewrite", "dialect_for"]


def dialect_for(target: Target, source: Source, quote: str) -> Dialect:
    """Return the dialect in which the edits of one file are written."""
    return NpuDialect(source, quote) if target == "npu" else AgnosticDialect(source, quote)
