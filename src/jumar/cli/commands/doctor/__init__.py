"""`jumar doctor`: what is wrong with this machine, what the logs of a failed run say, and which options disagree."""

from __future__ import annotations

from jumar.cli.commands.doctor.entry import command
from jumar.cli.commands.doctor.options import tell_options

__all__ = ["command", "tell_options"]
