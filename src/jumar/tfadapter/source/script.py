"""What one file sets: `ScriptOptions`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from jumar.tfadapter.options import Setting
from jumar.tfadapter.source.commands import CommandLine


@dataclass
class NpuSession:
    """One `custom_optimizers.add()`: a session's options, and what stands beside them."""

    group: str
    line: int
    variable: str = ""
    """What the source calls the optimizer: `custom_op`."""
    config: str = ""
    """The expression of the ConfigProto."""
    name: str | None = None
    """What the optimizer is called; None where the source does not tell, empty where it has no name."""
    off: set[str] = field(default_factory=set)
    """What of `remapping` and `memory_optimization` is off."""
    switched: dict[str, int] = field(default_factory=dict)
    """Rewrites of TensorFlow that the source turns the wrong way for an NPU -> line."""


@dataclass
class ScriptOptions:
    """The settings of a file, in its order."""

    path: Path
    settings: list[Setting] = field(default_factory=list)
    sessions: list[NpuSession] = field(default_factory=list)
    unread: list[tuple[int, str]] = field(default_factory=list)
    """Line, and what is set there under a name that the source does not tell."""
    completed: bool = False
    """Whether `npu_config_proto` or a like function completes the sessions' options."""
    commands: list[CommandLine] = field(default_factory=list)
    """The calls of `aoe`, `atc` and `jumar tune` in a shell's text."""
    runs: frozenset[str] = frozenset()
    """The names of the Python files that a shell script starts."""
