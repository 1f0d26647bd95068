"""`jumar tune`: a model, a script or a recording in; what is faster on this machine, a bank and a result file out."""

from __future__ import annotations

from jumar.cli.commands.tune.entry import command

__all__ = ["command"]
