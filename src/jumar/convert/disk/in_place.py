"""Converts files in place. Each file has its old or its new bytes, and a patch takes the conversion back.

The patch grows just before each file is replaced, so that even a run that is killed leaves one that covers
everything it changed (its last file may not have been changed yet).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path

from jumar.base.errors import InputError, OutputError
from jumar.base.files import append, write_bytes
from jumar.convert.disk.patch import file_patch
from jumar.convert.disk.walk import shown
from jumar.convert.model.outcome import Outcome


def write_in_place(root: Path, outcomes: Sequence[Outcome], patch: Path) -> Path:
    """Put the converted bytes into the files they came from; return the patch, which `git apply -R` takes back.

    `patch` is never overwritten: where it exists, the next free of `NAME.2`, `NAME.3` … is taken. Permission
    bits stay. Raises InputError, before anything is touched, when a file is no longer what was read or the
    patch would lie in a file that is converted; OutputError when a write fails, after everything that was
    replaced has been put back.
    """
    for outcome in outcomes:
        _check_unchanged(root / outcome.path, outcome)
    file, path = _new_file(patch)
    done: list[Outcome] = []
    with file:
        try:
            for outcome in outcomes:
                append(file.fileno(), file_patch(outcome.path, outcome.before, outcome.after))
                _check_unchanged(root / outcome.path, outcome)
                write_bytes(root / outcome.path, outcome.after, keep_mode=True)
                done.append(outcome)
        except BaseException as error:
            _restore(root, done)
            file.close()
            path.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise OutputError(
                    f'"{shown(str(error.filename or root))}" cannot be written: {error.strerror}; '
                    "nothing was changed. Mend that, or write to another folder with -o."
                ) from error
            raise
    return path


def _check_unchanged(path: Path, outcome: Outcome) -> None:
    try:
        same = not path.is_symlink() and path.read_bytes() == outcome.before
    except OSError as error:
        raise InputError(f'"{path}" cannot be read any more: {error.strerror}; nothing was changed.') from error
    if not same:
        raise InputError(f'"{path}" changed since it was read; nothing was changed: convert again.')


def _names(patch: Path) -> Iterator[Path]:
    yield patch
    number = 2
    while True:
        yield patch.with_name(f"{patch.stem}.{number}{patch.suffix}")
        number += 1


def _new_file(patch: Path) -> tuple[FileIO, Path]:
    try:
        patch.parent.mkdir(parents=True, exist_ok=True)
        for path in _names(patch):
            with contextlib.suppress(FileExistsError):
                return path.open("xb", buffering=0), path
    except OSError as error:
        raise OutputError(f'"{patch}" cannot be written: {error.strerror}; nothing was changed.') from error
    raise AssertionError("there is always another name")


def _restore(root: Path, done: Sequence[Outcome]) -> None:
    """Put the old bytes back. Raises OutputError, naming the files, where even that fails."""
    failed = []
    for outcome in reversed(done):
        try:
            write_bytes(root / outcome.path, outcome.before, keep_mode=True)
        except OSError:
            failed.append(shown(outcome.path))
    if failed:
        raise OutputError(f"{', '.join(failed)} could not be put back; apply the patch backwards: git apply -R.")
