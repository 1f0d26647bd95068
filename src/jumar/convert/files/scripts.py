"""Kinds of scripts: shell and launcher scripts, and Makefiles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from jumar.convert.files.draft.drafting import Converted, convert_with
from jumar.convert.files.draft.kind import FileKind, is_text
from jumar.convert.files.shell.convert import shell_proposals
from jumar.convert.model.edits import Proposal
from jumar.convert.model.options import ConvertOptions
from jumar.convert.model.outcome import Outcome
from jumar.convert.model.project import ProjectFacts

_SUFFIXES = frozenset({".sh", ".bash", ".zsh", ".ksh", ".slurm", ".sbatch", ".pbs", ".job", ".envrc"})
_NAMES = frozenset({".envrc", ".bashrc", ".profile", ".bash_profile"})
_SHEBANG = re.compile(rb"#!\s*\S*/(?:env\s+(?:-\S+\s+)*)?(?:ba|z|k|da)?sh\b")
_MAKE_SUFFIXES = frozenset({".mk", ".mak"})
_CONTINUED = re.compile(r"(?:[^\n\\]|\\.|\\\r?\n)*", re.DOTALL)
_RECIPE = re.compile(r"^\t[@+\-\t ]*", re.MULTILINE)
_MAKE_ASSIGNMENT = re.compile(
    r"^(?P<export>(?:override|export|unexport)[ ]+)?(?P<name>[A-Za-z_]\w*)(?P<space>[ \t]*)(?P<sign>[:?+!]{0,3}=)",
    re.MULTILINE,
)


def _is_shell(path: PurePosixPath, data: bytes) -> bool:
    named = path.suffix.lower() in _SUFFIXES or path.name in _NAMES
    return (named or (not path.suffix and _SHEBANG.match(data) is not None)) and is_text(data)


def _is_make(path: PurePosixPath, data: bytes) -> bool:
    named = path.name.lower() in ("makefile", "gnumakefile") or path.suffix in _MAKE_SUFFIXES
    return named and is_text(data)


def _shell(data: bytes, path: str, options: ConvertOptions, project: ProjectFacts) -> Outcome:
    return convert_with(data, path, options, project, shell_proposals)


def _make(data: bytes, path: str, options: ConvertOptions, project: ProjectFacts) -> Outcome:
    return convert_with(data, path, options, project, _make_proposals)


def _make_proposals(text: str, options: ConvertOptions, project: ProjectFacts) -> Iterator[Proposal | Converted]:
    """Read recipes as shell commands, and `export NAME=value` lines as assignments."""
    for match in _RECIPE.finditer(text):
        end = _line_end(text, match.end())
        yield from shell_proposals(text, options, project, match.end(), end, make=True)
    for match in _MAKE_ASSIGNMENT.finditer(text):
        if match["sign"] in ("=", ":=", "?=", "::=") and match["sign"] == "=" and not match["space"]:
            end = _line_end(text, match.end())
            yield from shell_proposals(text, options, project, match.start(), end, make=True)


def _line_end(text: str, start: int) -> int:
    match = _CONTINUED.match(text, start)
    return match.end() if match is not None else start


SHELL: FileKind = FileKind(name="shell script", matches=_is_shell, convert=_shell)
MAKE: FileKind = FileKind(name="Makefile", matches=_is_make, convert=_make)
