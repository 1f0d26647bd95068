"""Shell commands that pages print for the user to run from where they stand: `git_apply`, `shell_line`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path


def git_apply(folder: Path, patch: Path, *, reverse: bool = False) -> str:
    """Return the command that applies a patch whose paths begin at `folder`.

    Below the top of a repository git passes over paths of a patch, without a word, unless it is told where they are.
    """
    here = folder.resolve()
    top = next((parent for parent in (here, *here.parents) if (parent / ".git").exists()), here)
    place = [] if here == Path.cwd() or top == Path.cwd() else ["-C", str(folder)]
    words = ["git", *place, "apply", *(["-R"] if reverse else [])]
    if top != here:
        words.append(f"--directory={here.relative_to(top).as_posix()}")
    return shlex.join([*words, str(patch.resolve())])


def shell_line(words: Iterable[str], variables: Mapping[str, str] | None = None) -> str:
    """Return a command line that a shell reads as these words, with variables in front of it."""
    given = [f"{name}={shlex.quote(value)}" for name, value in (variables or {}).items()]
    return " ".join([*given, shlex.join(words)])


def module_path() -> dict[str, str]:
    """Return PYTHONPATH where it is set: a command that is repeated later imports from the same folders."""
    return {"PYTHONPATH": os.environ["PYTHONPATH"]} if os.environ.get("PYTHONPATH") else {}
