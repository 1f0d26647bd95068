"""Keeps results of conversions in the user's cache folder: `Cache`.

An entry is one small file named after everything its result depends on: the bytes and the path of the
source, the options, the facts of the project, and the very sources of this package with the versions
of Python and LibCST. Entries are written under another name and renamed into place, hold a digest of
themselves, and are ignored and written again when that does not match; so any number of runs may share
the folder, and one that is killed spoils nothing. A folder that cannot be written is no error: the run
is slower. Nothing is unpickled: entries are JSON.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import sys
import time
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from jumar.base import home
from jumar.base.files import PART_SUFFIX, write_bytes
from jumar.base.findings import Finding
from jumar.base.rules import installed_modules
from jumar.convert.model.outcome import Failure, Outcome, Skip, Success

MAX_BYTES = 256 << 20
"""Size that the folder is brought back to, oldest entries first."""

_DIGEST_BYTES = 32
_PRUNE_SECONDS = 24 * 3600
_STALE_SECONDS = 3600
_TOUCH_SECONDS = 24 * 3600


def user_cache() -> Cache | None:
    """Return the cache in `$JUMAR_CACHE_DIR`, `$XDG_CACHE_HOME/jumar` or `~/.cache/jumar`; None without a home."""
    folder = cache_folder()
    return None if folder is None else Cache(folder)


def cache_folder() -> Path | None:
    """Return where `user_cache` is."""
    if os.environ.get("JUMAR_CACHE_DIR"):
        return Path(os.environ["JUMAR_CACHE_DIR"])
    folder = home.cache_folder()
    return None if folder is None else folder / "jumar"


class Cache:
    """A folder of entries, `max_bytes` large at most once `prune` ran. Safe to use from many processes at once."""

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self._folder = folder / "convert"
        self._max_bytes = max_bytes
        self._written_bytes = 0
        self._works = True

    def read(self, key: str) -> Any:
        """Return the JSON value kept under `key`, None when there is none or it is damaged."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        body = data[_DIGEST_BYTES:]
        if hashlib.sha256(body).digest() != data[:_DIGEST_BYTES]:
            return None
        self._keep_young(path)
        return json.loads(body)

    def write(self, key: str, value: Any) -> None:
        """Keep a JSON value under `key`."""
        if not self._works:
            return
        body = json.dumps(value, separators=(",", ":")).encode()
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, hashlib.sha256(body).digest() + body, durable=False)
        except OSError:
            self._works = False
            return
        self._written_bytes += len(body)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / key[2:]

    @staticmethod
    def _keep_young(path: Path) -> None:
        """Note that an entry was used, at most once a day."""
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _TOUCH_SECONDS:
                os.utime(path)

    def prune(self) -> None:
        """Remove the oldest entries above the limit, and what killed runs left; at most once a day, or after much."""
        marker = self._folder / "pruned"
        try:
            young = time.time() - marker.stat().st_mtime < _PRUNE_SECONDS
        except OSError:
            young = False
        if not self._written_bytes or (young and self._written_bytes < self._max_bytes // 16):
            return
        with contextlib.suppress(OSError):
            self._remove_oldest()
            marker.touch()

    def _remove_oldest(self) -> None:
        entries, total, now = [], 0, time.time()
        for path in self._folder.glob("??/*"):
            with contextlib.suppress(OSError):
                about = path.stat()
                if path.name.endswith(PART_SUFFIX) and now - about.st_mtime > _STALE_SECONDS:
                    path.unlink()
                    continue
                entries.append((about.st_mtime, path, about.st_size))
                total += about.st_size
        for _, path, size in sorted(entries):
            if total <= self._max_bytes:
                return
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size


def fingerprint(*parts: object) -> str:
    """Return a digest of values: dataclasses, mappings, sets, sequences, plain values, and whatever has its own."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(repr(_plain(part)).encode("utf-8", "surrogatepass"))
        digest.update(b"\0")
    return digest.hexdigest()


def _plain(value: object) -> object:
    own = getattr(value, "fingerprint", None)
    if isinstance(own, str):
        return own
    if is_dataclass(value) and not isinstance(value, type):
        return (type(value).__name__, [(field.name, _plain(getattr(value, field.name))) for field in fields(value)])
    if isinstance(value, dict):
        return sorted((repr(_plain(key)), _plain(item)) for key, item in value.items())
    if isinstance(value, (set, frozenset)):
        return sorted(repr(_plain(item)) for item in value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


@functools.cache
def program_fingerprint() -> str:
    """Return a digest of what converts: the sources of this room and those below it, rules of others, versions."""
    import importlib.metadata  # it takes 10 ms to import, and few conversions ask

    digest = hashlib.sha256()
    package = Path(__file__).parent.parent
    rooms = (package, *(package.parent / name for name in ("base", "operators", "soc")))
    for path in (path for room in rooms for path in sorted(room.rglob("*"))):
        if path.suffix != ".pyc" and path.is_file():
            digest.update(f"{path.relative_to(package.parent).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    for module in installed_modules("convert"):
        file = sys.modules[module.find.__module__].__file__ or ""
        digest.update(f"{module.RULE}\0".encode() + (Path(file).read_bytes() if file else b""))
    digest.update(f"{sys.version_info[:3]} {importlib.metadata.version('libcst')}".encode())
    return digest.hexdigest()


def encode_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as JSON values, without its path and its bytes before."""
    value: dict[str, Any] = {
        "kind": type(outcome).__name__,
        "findings": [finding.to_json() for finding in outcome.findings],
        "num_edits": outcome.num_edits,
    }
    if isinstance(outcome, Success):
        value["after"] = outcome.after.decode("latin-1") if outcome.changed else None
    else:
        value["text"] = outcome.error if isinstance(outcome, Failure) else outcome.reason
    return value


def decode_outcome(value: Any, path: str, before: bytes) -> Outcome | None:
    """Return the outcome that `encode_outcome` gave `value` for, None where the value is of another form."""
    try:
        findings = tuple(Finding.from_json(finding) for finding in value["findings"])
        shared: dict[str, Any] = {"path": path, "before": before, "findings": findings, "num_edits": value["num_edits"]}
        if value["kind"] == "Success":
            after = before if value["after"] is None else value["after"].encode("latin-1")
            return Success(**shared, after=after)
        if value["kind"] == "Failure":
            return Failure(**shared, error=value["text"])
        return Skip(**shared, reason=value["text"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
