"""`pack`: masks texts one after another and writes them into an archive, whole or not at all.

Texts are spooled to a temporary folder that only this user can read: names are learned from all of them before any is
masked, so that one host has one alias everywhere.
"""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from jumar.advise.doctor.bundle.cutting import HEAD_BYTES, TAIL_BYTES, Cut, cut
from jumar.advise.doctor.bundle.manifest import Bundle, Content, manifest_text
from jumar.advise.doctor.bundle.masking import Masker
from jumar.base import files
from jumar.base.errors import UsageError

MOST_BYTES = 64 * 2**20
"""Of all texts. When it is reached, further logs keep little of their head and tail."""
LITTLE_BYTES = 2**14
SUFFIXES = (".tar.gz", ".tgz", ".zip")
_TOP = "jumar-report"
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One text to pack."""

    name: str
    what: str
    lines: Iterable[str]
    errors: Sequence[int] = ()
    """Lines with errors, which are kept with those around them."""
    is_whole: bool = False
    """Never cut."""


@dataclass(slots=True)
class _Spooled:
    source: Source
    path: Path
    told: Cut = field(default_factory=Cut)


def check_target(path: Path, *, force: bool = False) -> None:
    """Raise UsageError for another kind of archive, OutputError for a file that exists."""
    if not path.name.endswith(SUFFIXES):
        raise UsageError(
            f"--bundle writes {', '.join(SUFFIXES)}; got {path.name!r}. Name a file such as report.tar.gz."
        )
    files.check_output(path, force)


def pack(path: Path, sources: Iterable[Source], masker: Masker, *, notes: Sequence[str] = ()) -> Bundle:
    """Write the archive. Raises OutputError where it cannot be written; nothing is left then.

    `notes` are read last: the sources may add to them.
    """
    check_target(path)
    contents: list[Content] = []
    with tempfile.TemporaryDirectory(prefix="jumar-bundle-") as folder, files.explained(path):
        spooled = _spool_all(sources, masker, Path(folder))
        for note in notes:
            masker.learn(note)
        told = tuple(masker.mask_text(note) for note in notes)
        path.parent.mkdir(parents=True, exist_ok=True)

        def fill(part: Path) -> None:
            with _Archive(path.name, part) as archive:
                for one in spooled:
                    contents.append(_add(archive, one, masker, {content.name for content in contents}))
                _add_manifest(archive, tuple(contents), masker, told)

        files.write_atomically(path, fill)
    return Bundle(
        path=path, size_bytes=path.stat().st_size, contents=tuple(contents), masked=dict(masker.counts), notes=told
    )


def _spool_all(sources: Iterable[Source], masker: Masker, folder: Path) -> list[_Spooled]:
    spooled: list[_Spooled] = []
    size = 0
    for number, source in enumerate(sources):
        one = _Spooled(source=source, path=folder / str(number))
        head, tail = (HEAD_BYTES, TAIL_BYTES) if size < MOST_BYTES else (LITTLE_BYTES, LITTLE_BYTES)
        lines = source.lines if source.is_whole else cut(source.lines, one.told, source.errors, head=head, tail=tail)
        masker.learn(source.name)
        with one.path.open("w", encoding="utf-8", errors="replace", newline="\n") as file:
            for line in lines:
                masker.learn(line)
                size += file.write(line + "\n")
        spooled.append(one)
    return spooled


def _add(archive: _Archive, one: _Spooled, masker: Masker, taken: set[str]) -> Content:
    name = _free_name(_plain_name(masker.mask_text(one.source.name)), taken)
    masker.begin()
    number = 0
    with tempfile.TemporaryFile() as out:
        with one.path.open(encoding="utf-8", newline="\n") as lines:
            for line in lines:
                out.write(masker.mask(line.removesuffix("\n")).encode("utf-8", "replace") + b"\n")
                number += 1
        size = out.tell()
        out.seek(0)
        archive.add(f"{_TOP}/{name}", out, size)
    one.path.unlink()
    told = one.told
    return Content(
        name=name, size_bytes=size, num_lines=number, what=one.source.what,
        left_out_lines=told.left_out, kept=tuple(told.kept),
    )  # fmt: skip


def _add_manifest(archive: _Archive, contents: tuple[Content, ...], masker: Masker, notes: tuple[str, ...]) -> None:
    masked = dict(masker.counts)
    text = manifest_text(contents, masked, notes)
    document = {"contents": [one.to_json() for one in contents], "masked": masked, "notes": list(notes)}
    for name, said in (("MANIFEST.txt", text), ("manifest.json", json.dumps(document, ensure_ascii=False, indent=1))):
        data = said.encode()
        archive.add(f"{_TOP}/{name}", io.BytesIO(data), len(data))


def _plain_name(name: str) -> str:
    """Return a name that leads nowhere else: no folder above, no sign that a system does not take."""
    parts = []
    for part in PurePosixPath(name.replace("\\", "/")).parts:
        if part == "/":
            continue
        kept = "".join(sign if sign.isalnum() or sign in "-_.+=" else "_" for sign in part).strip(". ")
        if kept:
            parts.append(kept[-120:])
    return "/".join(parts[-4:]) or "unnamed"


def _free_name(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    path = PurePosixPath(name)
    return next(
        other
        for number in range(2, 1_000_000)
        if (other := str(path.with_name(f"{path.stem}-{number}{path.suffix}"))) not in taken
    )


class _Archive:
    """A tar.gz or zip file that is written; times, owners and the own name are left out."""

    def __init__(self, name: str, part: Path) -> None:
        self._stack = ExitStack()
        self._zip: zipfile.ZipFile | None = None
        self._tar: tarfile.TarFile | None = None
        enter = self._stack.enter_context
        if name.endswith(".zip"):
            self._zip = enter(zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED))
            return
        packed = enter(gzip.GzipFile(filename="", mode="wb", fileobj=enter(part.open("wb")), mtime=0))
        self._tar = enter(tarfile.TarFile(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT))

    def __enter__(self) -> _Archive:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def add(self, name: str, content: IO[bytes], size: int) -> None:
        """Add one member."""
        if self._zip is not None:
            entry = zipfile.ZipInfo(name, date_time=_EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            with self._zip.open(entry, "w") as target:
                while data := content.read(2**20):
                    target.write(data)
            return
        assert self._tar is not None
        member = tarfile.TarInfo(name)
        member.size, member.mode = size, 0o644
        self._tar.addfile(member, content)
