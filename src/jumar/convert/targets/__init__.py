"""`Dialect`: how code is written for a target. Every rule that writes code asks it."""

from __future__ import annotations

from jumar.convert.model.options import Target
from jumar.convert.syntax.source import Source
from jumar.convert.targets.base import Dialect, Rewrite

__all__ = ["Dialect", "Rewrite", "dialect_for"]


def dialect_for(target: Target, source: Source, quote: str) -> Dialect:
    """Return the dialect in which the edits of one file are written; only the module of that target is imported."""
    if target == "npu":
        from jumar.convert.targets.npu import NpuDialect

        return NpuDialect(source, quote)
    from jumar.convert.targets.agnostic.target import AgnosticDialect

    return AgnosticDialect(source, quote)
