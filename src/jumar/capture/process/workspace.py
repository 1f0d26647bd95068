"""A copy-on-write view of the folders a script works in, so that a trial run does not change the user's files.

`Workspace.create` mirrors the working folder, the script's folder and a few folders above them as
symbolic links. A script that runs in the mirror reads the user's files through the links. In the
script's processes `install_guard` turns every write into a write to the mirror: an audit hook sees
it before it happens, turns linked folders on its way into real ones and a linked file into a copy.

Limits: a library that opens files for writing in native code without telling Python is not seen
(`torch.save` is handled); paths outside the mirrored folders are used as they are.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.base.errors import OutputError

ENVIRONMENT = "JUMAR_WORKSPACE"
NUM_MIRRORED_PARENTS = 3
"""Folders above the working folder that are mirrored too, for scripts that use `../data`."""

_MUTATING_EVENTS = {
    "os.mkdir",
    "os.remove",
    "os.rmdir",
    "os.rename",
    "os.truncate",
    "os.chmod",
    "os.link",
    "os.symlink",
}
_CONTENT_EVENTS = {"os.truncate", "os.chmod"}
_TREE_EVENTS = {"shutil.rmtree"}
_EVENTS = {"open"} | _MUTATING_EVENTS | _TREE_EVENTS


@dataclass(frozen=True, slots=True)
class Workspace:
    """A mirror of some of the file system under `root`: `/home/me/x` is seen at `root/home/me/x`."""

    root: Path

    @classmethod
    def create(cls, root: Path, folders: Iterable[Path], *, leave_out: Iterable[Path] = ()) -> Workspace:
        """Mirror `folders` and up to `NUM_MIRRORED_PARENTS` folders above each under `root`.

        `leave_out` (Jumar's own output, which lies in the user's folder) does not appear in the
        mirror. Raises OutputError when `root` cannot be written.
        """
        hidden = {path.resolve() for path in leave_out}
        workspace = cls(root.resolve())
        try:
            for folder in folders:
                workspace._mirror(folder.resolve(), hidden)
        except OSError as error:
            raise OutputError(
                f"the working copy {root} could not be made: {error.strerror}. Choose another folder with -o."
            ) from error
        return workspace

    def path(self, original: Path) -> Path:
        """Return where `original` (absolute, links resolved) is seen in the mirror."""
        return self.root / original.resolve().relative_to(original.resolve().anchor)

    def put(self, original: Path, content: bytes) -> Path:
        """Make `original` a real file with `content` in the mirror and return its path there."""
        target = self.path(original)
        materialise(self.root, target)
        if not target.parent.is_dir():
            self._mirror(original.resolve().parent, set())
        with suppress(FileNotFoundError):
            target.unlink()
        target.write_bytes(content)
        return target

    def _mirror(self, folder: Path, hidden: set[Path]) -> None:
        parents = [parent for parent in folder.parents if parent != parent.parent][:NUM_MIRRORED_PARENTS]
        for level in [*reversed(parents), folder]:
            self._link_entries(level, hidden)

    def _link_entries(self, folder: Path, hidden: set[Path]) -> None:
        mirror = self.path(folder)
        materialise(self.root, mirror / "entry")
        mirror.mkdir(parents=True, exist_ok=True)
        for path in hidden:
            if path.parent in (folder, *folder.parents) and self.path(path.parent).joinpath(path.name).is_symlink():
                self.path(path.parent).joinpath(path.name).unlink()
        with suppress(PermissionError):  # an unreadable parent folder is simply not mirrored
            for entry in os.scandir(folder):
                link = mirror / entry.name
                if Path(entry.path) not in hidden and not link.is_symlink() and not link.exists():
                    link.symlink_to(entry.path)


def materialise(root: Path, path: Path) -> None:
    """Turn every linked folder between `root` and `path` into a real folder of links."""
    current = root
    for part in path.relative_to(root).parts[:-1]:
        current = current / part
        if not current.is_symlink():
            continue
        original = current.resolve()
        if not original.is_dir():
            return
        current.unlink()
        current.mkdir()
        for entry in os.scandir(original):
            (current / entry.name).symlink_to(entry.path)


def detach(path: Path, *, keep_content: bool) -> None:
    """Replace a linked file at `path` by a copy of what it points to, or by an empty file."""
    original = path.resolve()
    if not path.is_symlink() or original.is_dir():
        return
    path.unlink()
    if keep_content and original.is_file():
        shutil.copy2(original, path)
    elif original.is_file():
        path.touch()


def materialise_tree(root: Path, path: Path) -> None:
    """Turn the linked folder at `path`, and every folder below it, into real folders of links."""
    materialise(root, path / "anything")
    for entry in os.scandir(path):
        if entry.is_dir():
            materialise_tree(root, Path(entry.path))


class _Guard:
    """The audit hook: redirects writes below `root` before they happen."""

    def __init__(self, root: Path) -> None:
        self._root = os.path.normpath(root)
        self._busy = False
        self._hears_torch = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._hears_torch:
            self._hear_torch()
        if self._busy or event not in _EVENTS:
            return
        self._busy = True  # the guard's own file operations raise the same events
        try:
            if event == "open":
                self._on_open(*arguments[:3])
            elif event in _TREE_EVENTS:
                self._before_removal(arguments[0])
            elif event == "os.rename":
                self.before_write(arguments[0], content=False)
                self.before_write(arguments[1], content=False)
            else:
                target = arguments[1] if event in {"os.link", "os.symlink"} else arguments[0]
                self.before_write(target, content=event in _CONTENT_EVENTS)
        finally:
            self._busy = False

    def _on_open(self, path: object, mode: object, flags: object) -> None:
        flag_bits = flags if isinstance(flags, int) else 0
        if flag_bits & os.O_EXCL:
            self.before_write(path, content=False)
            return
        writes = flag_bits & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        if writes or (isinstance(mode, str) and set(mode) & set("wax+")):
            self.before_write(path, content=True, truncates=bool(flag_bits & os.O_TRUNC))

    def before_write(self, path: object, *, content: bool, truncates: bool = False) -> None:
        """Make sure that a write to `path` lands in the mirror."""
        target = self._inside(path)
        if target is None:
            return
        materialise(Path(self._root), target)
        if content:
            detach(target, keep_content=not truncates)

    def _hear_torch(self) -> None:
        """`torch.save` opens its file in C++, which raises no audit event: have it told here once it is imported."""
        serialization = sys.modules.get("torch.serialization")
        open_writer = getattr(serialization, "_open_zipfile_writer", None)
        if open_writer is None:
            return
        self._hears_torch = True

        def announced(name_or_buffer: Any) -> Any:
            self.before_write(name_or_buffer, content=True, truncates=True)
            return open_writer(name_or_buffer)

        serialization._open_zipfile_writer = announced  # type: ignore[union-attr]

    def _before_removal(self, path: object) -> None:
        target = self._inside(path)
        if target is not None and target.is_dir():
            materialise_tree(Path(self._root), target)

    def _inside(self, path: object) -> Path | None:
        """Return the absolute path when it lies in the mirror."""
        if not isinstance(path, str | bytes | os.PathLike):
            return None  # an open file descriptor: its file was redirected when it was opened
        absolute = os.path.normpath(Path(os.fsdecode(path)).absolute())
        return Path(absolute) if absolute.startswith(self._root + os.sep) else None


def install_guard(root: Path) -> None:
    """Redirect this process's writes below the mirror at `root`, for the rest of the process's life."""
    sys.addaudithook(_Guard(root))
