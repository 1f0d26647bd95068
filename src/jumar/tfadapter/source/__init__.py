"""What the source of a TensorFlow script sets, read without TensorFlow."""

from __future__ import annotations

from jumar.tfadapter.source.commands import CommandLine, is_command
from jumar.tfadapter.source.operators_file import read_operators_file
from jumar.tfadapter.source.reader import read_script, read_text, source_text
from jumar.tfadapter.source.script import NpuSession, ScriptOptions
from jumar.tfadapter.source.shell import read_commands, read_shell

__all__ = [
    "CommandLine",
    "NpuSession",
    "ScriptOptions",
    "is_command",
    "read_commands",
    "read_operators_file",
    "read_script",
    "read_shell",
    "read_text",
    "source_text",
]
