"""`jumar convert`: CUDA sources in; NPU sources, a patch, reports and findings out."""

from __future__ import annotations

from jumar.cli.commands.convert.entry import command

__all__ = ["command"]
