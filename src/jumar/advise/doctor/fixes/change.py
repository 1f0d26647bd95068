"""`Change`: something that can be done and undone: a setting, a mount, a file moved aside, variables in a file.

`lines` shows it before it is made, `undo` is shell for what takes it back, `make` does it.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from jumar.base import files
from jumar.base.text import size_text

Run = Callable[[Sequence[str]], None]


def run_command(words: Sequence[str]) -> None:
    """Run a command. Raises OSError with its last line where it fails."""
    done = subprocess.run(list(words), capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise OSError(f"{shlex.join(words)} ended with {done.returncode}" + (f": {said[-1]}" if said else ""))


class Change(Protocol):
    """One change."""

    @property
    def title(self) -> str:
        """What it does, in a few words."""

    @property
    def code(self) -> str:
        """The rule whose finding it mends."""

    @property
    def needs_root(self) -> bool:
        """Whether only root may do it."""

    def lines(self) -> list[str]:
        """Return the exact change: file or command, old and new value."""

    def undo(self) -> list[str]:
        """Return lines of sh that take it back; they do no harm where it was not made."""

    def make(self, run: Run) -> None:
        """Do it. Raises OSError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A value of the kernel, in one file or, as for each core, in several: /sys and /proc/sys, until the next start."""

    title: str
    code: str
    new: str
    old: tuple[tuple[Path, str], ...]
    """Each file with its present value, in the form in which it is written."""
    needs_root: bool = True

    def lines(self) -> list[str]:
        """Return the first file with its values, and how many more there are."""
        path, value = self.old[0]
        more = f"  (and {len(self.old) - 1} more files)" if len(self.old) > 1 else ""
        return [f"{path}: {value or '(empty)'} → {self.new}{more}"]

    def undo(self) -> list[str]:
        """Write the old values."""
        return [f"printf '%s\\n' {shlex.quote(value)} > {shlex.quote(str(path))}" for path, value in self.old]

    def make(self, run: Run) -> None:
        """Write the new value."""
        del run
        for path, _ in self.old:
            path.write_text(self.new + "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remount:
    """The size of /dev/shm, until the next start."""

    title: str
    code: str
    path: str
    old_bytes: int
    new_bytes: int
    needs_root: bool = True

    def lines(self) -> list[str]:
        """Return the command, and the sizes."""
        sizes = f"{size_text(self.old_bytes)} → {size_text(self.new_bytes)}"
        return [f"{shlex.join(self._command(self.new_bytes))}  ({sizes})"]

    def undo(self) -> list[str]:
        """Mount it with the old size."""
        return [shlex.join(self._command(self.old_bytes))]

    def make(self, run: Run) -> None:
        """Mount it with the new size."""
        run(self._command(self.new_bytes))

    def _command(self, size_bytes: int) -> list[str]:
        return ["mount", "-o", f"remount,size={size_bytes}", self.path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A file or folder that is moved aside; nothing is deleted."""

    title: str
    code: str
    path: Path
    aside: Path
    needs_root: bool = False

    def lines(self) -> list[str]:
        """Return both names."""
        return [f"mv {shlex.quote(str(self.path))} {shlex.quote(str(self.aside))}"]

    def undo(self) -> list[str]:
        """Move it back where it is gone, and nothing new stands in its place."""
        old, new = shlex.quote(str(self.path)), shlex.quote(str(self.aside))
        return [
            f"if [ -e {new} ] && [ ! -e {old} ]; then mv {new} {old}; "
            f'elif [ -e {new} ]; then echo "{new} stays: {old} was made anew"; fi'
        ]

    def make(self, run: Run) -> None:
        """Rename it."""
        del run
        self.path.rename(self.aside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variables:
    """Variables of the shell, in a file that is to be sourced: a program cannot change the shell that started it."""

    path: Path
    commands: tuple[tuple[str, str], ...]
    """Lines of sh, each with the line that takes it back."""
    old: str | None = None
    """What the file held before; None where it is new."""
    title: str = "Set environment variables: a file to be sourced"
    code: str = ""
    needs_root: bool = False

    @property
    def undo_path(self) -> Path:
        """The file that takes the variables back, to be sourced too."""
        return self.path.with_name(f"{self.path.stem}-undo.sh")

    def lines(self) -> list[str]:
        """Return the file with its lines, and how to use it."""
        state = "is replaced" if self.old is not None else "is new"
        return [f"{self.path} {state}:", *(f"    {line}" for line, _ in self.commands), f"Then: source {self.path}"]

    def undo(self) -> list[str]:
        """Put the file back as it was; a shell that sourced it sources the other file."""
        path = shlex.quote(str(self.path))
        if self.old is None:
            return [f"rm -f {path}"]
        return [f"printf '%s' {shlex.quote(self.old)} > {path}"]

    def make(self, run: Run) -> None:
        """Write both files, the one that takes back first."""
        del run
        back = [line for _, line in reversed(self.commands) if line]
        files.write_text(self.undo_path, _sourced(f"Takes back {self.path.name}", back))
        files.write_text(self.path, _sourced("Written by jumar doctor --fix", [line for line, _ in self.commands]))


def _sourced(head: str, lines: Sequence[str]) -> str:
    return "\n".join([f"# {head}. Use it with: source", *lines, ""])
