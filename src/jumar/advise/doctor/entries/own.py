"""Entries of the user: files in folders (`own_folders`, `read_folder`), in TOML or JSON, in the form of Jumar's own.

A file may leave out `sources`: a source that is no key of it is the text itself. Severity `error`, role `cause` and the
file as the source are the defaults.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jumar.advise.doctor.entries.parse import parse_entries
from jumar.advise.doctor.entries.signature import Signature
from jumar.base.errors import InputError
from jumar.base.home import config_folder

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - Python 3.10
    import tomli as tomllib

ENVIRONMENT = "JUMAR_DOCTOR_ENTRIES"
"""Environment variable with folders of entries, separated as in PATH."""
SUFFIXES = (".toml", ".json")


def own_folders(given: Sequence[Path], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders to read, the most important first: `given`, those of the variable, the user's configuration.

    Raises InputError where one that was named is no folder.
    """
    named = [Path(part) for part in environ.get(ENVIRONMENT, "").split(os.pathsep) if part.strip()]
    for folder in (*given, *named):
        if not folder.is_dir():
            raise InputError(f"{folder} must be a folder with entries ({', '.join(SUFFIXES)}), and is none. Make it.")
    config = config_folder()
    usual = [] if config is None else [config / "jumar" / "doctor"]
    found = (*given, *named, *(folder for folder in usual if folder.is_dir()))
    return tuple(dict.fromkeys(folder.absolute() for folder in found))


def read_folder(folder: Path) -> tuple[Signature, ...]:
    """Return the entries of a folder. Raises InputError, which names the file, the entry and the broken rule."""
    found: dict[str, tuple[Path, Signature]] = {}
    for file in _files(folder):
        for signature in read_file(file):
            if signature.name in found:
                raise _wrong(file, f"the entry {signature.name!r} is in {found[signature.name][0].name}, too")
            found[signature.name] = (file, signature)
    return tuple(signature for _, signature in found.values())


def states(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Return name, time of the last change and size of each file of a folder: what tells whether to read it again."""
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in _files(folder))


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES and file.is_file())


def read_file(file: Path) -> tuple[Signature, ...]:
    """Return the entries of a file. Raises InputError, which names the file, the entry and the broken rule."""
    try:
        text = file.read_text("utf-8")
        document = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}. Mend it, or take it away.") from error
    except ValueError as error:  # also those of TOML and of bytes that are no text
        form = file.suffix.removeprefix(".").upper()
        raise _wrong(file, f"it must be {form} in UTF-8 ({error})") from error
    try:
        return parse_entries(completed(document, f"your own entry in {file}"))
    except ValueError as error:
        raise _wrong(file, str(error)) from error


def completed(document: object, source: str) -> dict[str, Any]:
    """Return a user's document with the defaults filled in. Raises ValueError for what is no document."""
    if not isinstance(document, dict) or not isinstance(document.get("errors"), list):
        raise ValueError("a file of entries must have a list `errors` (in TOML: [[errors]])")
    given = document.get("sources", {})
    if not isinstance(given, dict):
        raise ValueError("`sources` must be a table of texts")
    errors = [
        {"severity": "error", "role": "cause", "source": source, **entry} if isinstance(entry, dict) else entry
        for entry in document["errors"]
    ]
    return {"sources": {**{text: text for text in _texts(errors)}, **given}, "errors": errors}


def _texts(errors: Sequence[object]) -> Iterator[str]:
    for entry in errors:
        if isinstance(entry, dict) and isinstance(entry["source"], str):
            yield entry["source"]


def _wrong(file: Path, what: str) -> InputError:
    return InputError(f"{file}: {what}. Mend it, or take the file out of the folder.")
