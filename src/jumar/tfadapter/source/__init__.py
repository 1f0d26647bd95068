"""What the source of a TensorFlow script sets, read without TensorFlow."""

from __future__ import annotations

from jumar.tfadapter.source.reader import read_script, read_text
from jumar.tfadapter.source.script import NpuSession, ScriptOptions
from jumar.tfadapter.source.shell import read_shell

__all__ = ["NpuSession", "ScriptOptions", "read_script", "read_shell", "read_text"]
