"""Lists a source tree: files to convert, files to copy, links and folders. Links are not followed.

Left out, neither converted nor copied: version control, caches, virtual environments (by name, or by
the `pyvenv.cfg` or `conda-meta` inside), `site-packages`, earlier outputs and unfinished ones. What
`.gitignore` names is treated like any other file: a program may need it to run.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from pathlib import Path

from jumar.base.errors import InputError
from jumar.base.findings import Finding, Location, Severity
from jumar.convert.rules.tree import folder_left_out, path_not_converted, symbolic_link

SKIPPED_FOLDERS = frozenset(
    {".git", ".hg", ".svn", "__pycache__", ".venv", "venv", "node_modules", ".mypy_cache", ".ruff_cache", ".tox"}
    | {".nox", ".pytest_cache", ".eggs", ".ipynb_checkpoints", "site-packages", "dist-packages"}
)
"""Folders that hold no source of the project."""

_NOTED = SKIPPED_FOLDERS & {".venv", "venv", "node_modules", "site-packages", "dist-packages"}
"""The folders among them that are reported when they are left out."""

_PORT_MARKER = ".jumar-port"
"""The file by which `jumar port` marks its output."""

_OUTPUTS = ("_msft", "_msft_multi")
"""Endings of the folders that conversions make, Jumar's and GPU2Ascend's."""

_REPORTS = frozenset(
    {"msFmkTranspltlog.txt", "change_list.csv", "unsupported_op.xlsx", "findings.json", "changes.patch"}
)
"""Files that conversions write into them."""

_MAX_NAMED = 20

UNFINISHED = ".jumar-partial-"
"""Part of the names that outputs have until they are complete."""


@dataclass(slots=True)
class Walk:
    """Paths relative to the root, with forward slashes, in the order of their names."""

    root: Path
    files: list[str] = field(default_factory=list)
    """Regular files that can be read."""
    links: list[str] = field(default_factory=list)
    """Symbolic links, to files or folders."""
    folders: list[str] = field(default_factory=list)
    """Every folder, also empty ones."""
    notes: list[Finding] = field(default_factory=list)


def walk(root: Path, exclude: Iterable[Path] = ()) -> Walk:
    """List everything under the folder `root` but the files and folders `exclude`.

    Raises InputError when the root itself cannot be listed; anything else that cannot is a finding.
    """
    found = Walk(root)
    try:
        entries = _entries(root)
    except OSError as error:
        raise InputError(f'"{root}" cannot be listed: {error.strerror}. Check its permissions.') from error
    links = _Links(root)
    resolved = root.resolve()
    left_out = {
        _place(path).relative_to(resolved).as_posix() for path in exclude if _place(path).is_relative_to(resolved)
    }
    _fill(found, entries, "", left_out, links)
    found.notes += links.notes()
    return found


def _place(path: Path) -> Path:
    """Return where a path lies; a link is not followed."""
    return path.resolve() if path.name in ("", "..") else path.parent.resolve() / path.name


def shown(path: str) -> str:
    """Return a path as text that any terminal and any encoding takes: odd bytes as `\\xNN`, controls escaped."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def _fill(found: Walk, entries: list[os.DirEntry[str]], prefix: str, left_out: Set[str], links: _Links) -> None:
    found.notes += _collisions(entries, prefix)
    for entry in entries:
        name = prefix + entry.name
        if name in left_out:
            continue
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError as error:
            found.notes.append(_unreadable(name, error, "file"))
            continue
        if stat.S_ISLNK(mode):
            found.links.append(name)
            links.add(name)
        elif stat.S_ISDIR(mode):
            _folder(found, entry, name, left_out, links)
        elif not stat.S_ISREG(mode):
            found.notes.append(_special(name, mode))
        elif os.access(entry.path, os.R_OK):
            found.files.append(name)
        else:
            found.notes.append(_unreadable(name, PermissionError(13, "Permission denied"), "file"))


def _folder(found: Walk, entry: os.DirEntry[str], name: str, left_out: Set[str], links: _Links) -> None:
    if UNFINISHED in entry.name:
        return
    try:
        entries = _entries(Path(entry.path))
    except OSError as error:
        found.notes.append(_unreadable(name, error, "folder"))
        return
    reason = _reason_to_skip(entry.name, {inner.name for inner in entries})
    if reason is not None:
        if reason != "":
            found.notes.append(folder_left_out.note(shown(name), reason))
        return
    found.folders.append(name)
    _fill(found, entries, f"{name}/", left_out, links)


def _reason_to_skip(name: str, inside: Set[str]) -> str | None:
    """Return why a folder is left out, an empty text where no user asks why, None for the project's own."""
    if name in SKIPPED_FOLDERS:
        return "it holds installed packages" if name in _NOTED else ""
    if "pyvenv.cfg" in inside or "conda-meta" in inside:
        return "it is a virtual environment"
    if _PORT_MARKER in inside:
        return "it is the output of jumar port"
    if name.endswith(_OUTPUTS) and inside & _REPORTS:
        return "it is the output of an earlier conversion"
    return None


def _unreadable(name: str, error: OSError, kind: str) -> Finding:
    return path_not_converted.note(
        shown(name), f"The {kind} cannot be read ({error.strerror}), so it is missing in the output.",
        action="Give yourself permission to read it, and convert again.", severity=Severity.ERROR,
    )  # fmt: skip


def _special(name: str, mode: int) -> Finding:
    kind = "socket" if stat.S_ISSOCK(mode) else "named pipe" if stat.S_ISFIFO(mode) else "device"
    return path_not_converted.note(
        shown(name), f"It is a {kind}, which cannot be copied.", severity=Severity.INFO,
        action="Create it again where the program needs it.",
    )  # fmt: skip


def _collisions(entries: list[os.DirEntry[str]], prefix: str) -> Iterator[Finding]:
    """Report names of one folder that are one name where the file system ignores case."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        by_name[entry.name.casefold()].append(prefix + entry.name)
    for names in by_name.values():
        if len(names) > 1:
            yield path_not_converted.note(
                shown(names[0]), f"{' and '.join(shown(name) for name in names)} differ in case only.",
                action="Write the output to a file system that tells cases apart.", severity=Severity.ADVICE,
            )  # fmt: skip


class _Links:
    """Judges symbolic links by where they lead."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._resolved = root.resolve()
        self._inside: list[str] = []
        self._findings: list[Finding] = []

    def add(self, name: str) -> None:
        """Judge one link."""
        path = self._root / name
        target = str(path.readlink())
        try:
            end = path.resolve(strict=True)
        except (OSError, RuntimeError):
            kind = "leads to itself" if _loops(path) else "leads nowhere"
            self._note(name, f"The link {kind}; it is copied as it is.", Severity.ADVICE, "Remove or mend it.")
            return
        if not end.is_relative_to(self._resolved):
            message = f"The link leads out of the tree, to {shown(target)}, which is not converted."
            self._note(name, message, Severity.WARNING, "Convert its target, too, or copy it into the tree.")
        elif Path(target).is_absolute():
            message = f"The link names the original, {shown(target)}; its copy still leads to the unconverted file."
            self._note(name, message, Severity.WARNING, "Make the link relative.")
        else:
            self._inside.append(name)

    def _note(self, name: str, message: str, severity: Severity, action: str) -> None:
        self._findings.append(
            symbolic_link.RULE.finding(message, where=Location(path=shown(name)), severity=severity, action=action)
        )

    def notes(self) -> list[Finding]:
        """Return a finding a link that matters, and one for all others together."""
        if not self._inside:
            return self._findings
        num, first = len(self._inside), shown(self._inside[0])
        summary = symbolic_link.RULE.finding(
            f"Copied as {'a link' if num == 1 else f'{num} links'}, leading to the converted files.",
            where=Location(path=first), severity=Severity.INFO,
            evidence={"links": [shown(name) for name in self._inside[:_MAX_NAMED]], "num_links": num},
        )  # fmt: skip
        return [*self._findings, summary]


def _loops(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


__all__ = ["SKIPPED_FOLDERS", "UNFINISHED", "Walk", "shown", "walk"]
