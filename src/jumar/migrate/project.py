"""Many sources in, one conversion out: folders, patches, and output that replaces nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jumar.errors import InputError, OutputError
from jumar.findings import Finding
from jumar.migrate.engine import convert_source
from jumar.migrate.options import ConvertOptions
from jumar.migrate.outcome import Failure, Outcome, Skip, Success
from jumar.migrate.patch import file_patch

SKIPPED_FOLDERS = frozenset(
    {".git", ".hg", ".svn", "__pycache__", ".venv", "venv", "node_modules", ".mypy_cache", ".ruff_cache", ".tox"}
)
"""Folders that hold no source of the project; they are neither converted nor copied."""

Progress = Callable[[int, int], None]
"""Called with (files done, files in all)."""


@dataclass(frozen=True)
class Conversion:
    """The outcomes of a conversion, one a file, with paths relative to `root` (forward slashes)."""

    root: Path
    files: tuple[Outcome, ...]
    others: tuple[str, ...] = ()
    """Files under the root that are no Python sources; `write` copies them."""

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Every file's findings, in the order of the files."""
        return tuple(finding for outcome in self.files for finding in outcome.findings)

    @property
    def changed(self) -> tuple[Outcome, ...]:
        """The outcomes whose bytes differ."""
        return tuple(outcome for outcome in self.files if outcome.changed)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The files that could not be read."""
        return tuple(outcome for outcome in self.files if isinstance(outcome, Failure))

    @property
    def num_edits(self) -> int:
        """Replacements made in all files."""
        return sum(outcome.num_edits for outcome in self.files)

    def patch_bytes(self) -> bytes:
        """Return the patch that `git apply` takes at the source root."""
        return b"".join(file_patch(outcome.path, outcome.before, outcome.after) for outcome in self.changed)

    def patch(self) -> str:
        """Return `patch_bytes` as text; bytes that are not UTF-8 are kept as surrogate escapes."""
        return self.patch_bytes().decode("utf-8", "surrogateescape")

    def write(self, out: Path, force: bool = False, *, reports: Mapping[str, bytes] | None = None) -> None:
        """Write every converted and unchanged file, copies of the others, and `reports` by name, under `out`.

        The folder appears whole or not at all: it is filled under a temporary name beside its place.
        Raises OutputError when `out` exists and `force` is false, lies inside the source root (or the
        other way round), or cannot be written.
        """
        out = Path(out)
        check_output(self.root, out, force)
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            partial = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
        except OSError as error:
            raise OutputError(f'"{out}" cannot be written: {error.strerror}. Choose another folder.') from error
        try:
            self._fill(partial)
            for name, data in (reports or {}).items():
                (partial / name).write_bytes(data)
            partial.chmod(0o755)
            _put(partial, out)
        except OSError as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise OutputError(f'"{out}" cannot be written: {error.strerror}. Choose another folder.') from error
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise

    def _fill(self, folder: Path) -> None:
        for outcome in self.files:
            target = folder / outcome.path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(outcome.after)
            source = self.root / outcome.path
            if source.is_file():
                shutil.copymode(source, target)
        for other in self.others:
            target = folder / other
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.root / other, target, follow_symlinks=False)


def check_output(root: Path, out: Path, force: bool) -> None:
    """Raise OutputError when writing to `out` would replace something, or mix input and output."""
    if os.path.lexists(out) and not force:
        raise OutputError(f'"{out}" exists already; give a new folder, or --force to replace it.')
    here, there = root.resolve(), out.resolve()
    if here == there or there in here.parents:
        raise OutputError(f'"{out}" holds the sources themselves; give a folder outside of {root}.')
    if out.exists() and not out.is_dir():
        raise OutputError(f'"{out}" is a file; give a folder.')


def _put(partial: Path, out: Path) -> None:
    """Move the finished folder to its place; what it replaces goes only after that."""
    if not os.path.lexists(out):
        partial.rename(out)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{out.name}.old.", dir=out.parent))
    out.rename(old / out.name)
    try:
        partial.rename(out)
    except OSError:
        (old / out.name).rename(out)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def convert_files(
    root: Path, files: Sequence[Path], options: ConvertOptions | None = None, *, on_progress: Progress | None = None
) -> Conversion:
    """Convert these files, which lie under `root`. Raises InputError for a file that cannot be read or lies outside."""
    root = Path(root)
    outcomes = []
    for index, file in enumerate(files):
        outcomes.append(_convert_file(root, Path(file), options or ConvertOptions()))
        if on_progress is not None:
            on_progress(index + 1, len(files))
    return Conversion(root, tuple(outcomes))


def _convert_file(root: Path, file: Path, options: ConvertOptions) -> Outcome:
    try:
        name = (file if file.is_absolute() == root.is_absolute() else root / file).relative_to(root).as_posix()
    except ValueError as error:
        raise InputError(f'"{file}" must lie under {root}; move it there, or give another root.') from error
    try:
        data = (root / name).read_bytes()
    except OSError as error:
        raise InputError(f'"{file}" cannot be read: {error.strerror}.') from error
    return convert_source(data, name, options)


def convert_tree(
    source: Path,
    options: ConvertOptions | None = None,
    *,
    exclude: Sequence[Path] = (),
    on_progress: Progress | None = None,
) -> Conversion:
    """Convert every Python file under a folder, or one file; symbolic links are copied, not followed.

    `exclude` names folders to leave out (an output inside the source). Raises InputError when `source`
    is missing or cannot be listed.
    """
    source = Path(source)
    if source.is_file():
        return convert_files(source.parent, [source], options, on_progress=on_progress)
    if not source.is_dir():
        raise InputError(f'"{source}" must be a Python file or a folder; there is none of that name.')
    python: list[Path] = []
    others: list[Path] = []
    left_out = {path.resolve() for path in exclude}
    for path in _walk(source, left_out):
        (python if path.suffix == ".py" and not path.is_symlink() else others).append(path)
    conversion = convert_files(source, python, options, on_progress=on_progress)
    names = tuple(path.relative_to(source).as_posix() for path in others)
    return Conversion(source, conversion.files, names)


def _walk(folder: Path, left_out: set[Path]) -> Iterator[Path]:
    def unreadable(error: OSError) -> None:
        raise InputError(f'"{error.filename}" cannot be listed: {error.strerror}.') from error

    for here, folders, files in os.walk(folder, onerror=unreadable):
        linked = [name for name in folders if (Path(here) / name).is_symlink()]
        folders[:] = sorted(
            name
            for name in folders
            if name not in SKIPPED_FOLDERS and name not in linked and (Path(here) / name).resolve() not in left_out
        )
        for name in sorted([*files, *linked]):
            path = Path(here) / name
            if path.is_symlink() or path.is_file():
                yield path


__all__ = ["Conversion", "Failure", "Skip", "Success", "check_output", "convert_files", "convert_tree"]
