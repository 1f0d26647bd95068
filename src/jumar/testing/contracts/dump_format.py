"""`DumpFormatContract`: what a format of dumps promises: it reads its own files, and does no harm with any other."""

from __future__ import annotations

import pickle
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jumar.base.errors import RecordingError
from jumar.recording.foreign.dump import Dump, DumpFormat

if TYPE_CHECKING:
    from jumar.recording import CallRow

_CUTS = (0.0, 0.01, 0.25, 0.5, 0.9, 0.999)
"""Shares of a file that are left of it."""
_FLIPS = (0.0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99)
"""Places of one byte that is changed, as shares of the file."""
_MOST_BYTES = 1 << 20
_MOST_FILES = 8
"""Files of one kind that are damaged: a dump of thousands of alike files would be read once for each damage of each."""
_TOLERANCE = 1e-5


class _Harm:
    """An object whose pickle makes a folder when it is read."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.mkdir, (self.marker,)


class DumpFormatContract:
    """A `DumpFormat`. Set `format` and `tensors`, and write a dump in `write`.

    class TestMyFormat(DumpFormatContract):
        format = acme.dumps.FORMAT
        tensors = {"aten::relu": {"input.0": np.ones(2), "output.0": np.ones(2)}}

        def write(self, folder: Path) -> Path:
            ...
    """

    format: DumpFormat
    tensors: Mapping[str, Mapping[str, np.ndarray]]
    """Calls and their tensors that `write` puts into the dump: name of the row, name of the tensor, its values."""

    @abstractmethod
    def write(self, folder: Path) -> Path:
        """Write a dump of `tensors` into the empty `folder`; return the path that a user would name."""

    def test_it_recognises_its_own_dump(self, tmp_path: Path) -> None:
        """By content or name."""
        assert self.format.recognises(self.write(tmp_path)) is True

    def test_it_recognises_nothing_else_and_raises_nothing(self, tmp_path: Path) -> None:
        """Jumar asks each format about every path a user names."""
        taken = [path.name for path in _strangers(tmp_path) if self.format.recognises(path)]
        assert taken == []

    def test_jumar_opens_its_dump(self, tmp_path: Path) -> None:
        """No other format takes the dump first."""
        from jumar.recording.foreign import recognise

        path = self.write(tmp_path)
        with recognise.installed_formats().holding(self.format):
            dump = recognise.open_foreign(path)
        assert dump is not None
        assert dump.kind == self.format.read(path).kind

    def test_every_call_is_a_row(self, tmp_path: Path) -> None:
        """Rows have the names, and their tensors the shapes and dtypes, of what was dumped."""
        assert self.tensors, "name at least one call that the dump holds"
        _, found = self.first_rows(tmp_path)
        assert set(self.tensors) <= set(found)
        for name, tensors in self.tensors.items():
            known = {tensor.name: tensor for tensor in (*found[name].inputs, *found[name].outputs)}
            for key, array in tensors.items():
                assert (tuple(known[key].shape), known[key].dtype) == (array.shape, str(array.dtype)), (name, key)

    def test_the_values_can_be_read(self, tmp_path: Path) -> None:
        """Whole tensors come back equal; where the format has none, their statistics are right."""
        dump, found = self.first_rows(tmp_path)
        for name, tensors in self.tensors.items():
            row = found[name]
            whole = dump.tensors(row) if dump.has_tensors() else {}
            summaries = {tensor.name: tensor for tensor in (*row.inputs, *row.outputs)}
            for key, array in tensors.items():
                if dump.has_tensors():
                    np.testing.assert_array_equal(whole[key], array)
                mean = summaries[key].mean
                if mean is not None and np.isfinite(array).all():
                    np.testing.assert_allclose(mean, array.mean(), rtol=_TOLERANCE)

    def test_a_dump_that_is_cut_short_or_damaged_is_refused_or_read(self, tmp_path: Path) -> None:
        """With one sentence; no other error reaches the user."""
        path = self.write(tmp_path)
        for file in _files(path):
            data = file.read_bytes()
            for damaged in _damaged(data):
                file.write_bytes(damaged)
                assert "\n" not in self.complaint(path)
            file.write_bytes(data)
        assert self.complaint(path) == ""

    def test_nothing_in_a_file_is_run(self, tmp_path: Path) -> None:
        """A pickle in the place of each file, alone and behind the file's own first bytes."""
        folder, marker = tmp_path / "dump", tmp_path / "harm"
        folder.mkdir()
        path = self.write(folder)
        for file in _files(path):
            data = file.read_bytes()
            for protocol in (0, 2, 4):
                harm = pickle.dumps(_Harm(marker), protocol=protocol)
                for start in (0, 8):
                    file.write_bytes(data[:start] + harm)
                    assert "\n" not in self.complaint(path)
                    assert not marker.exists(), f"{file.name} was run"
            file.write_bytes(data)

    def first_rows(self, folder: Path) -> tuple[Dump, dict[str, CallRow]]:
        """Return a dump that was just written, and the first row of each name."""
        dump = self.format.read(self.write(folder))
        assert dump.ranks, "the dump has no rank"
        rows = (row for rank in dump.ranks for step in dump.steps(rank) for row in dump.rows(step, rank))
        found: dict[str, CallRow] = {}
        for row in rows:
            found.setdefault(row.name, row)
        return dump, found

    def complaint(self, path: Path) -> str:
        """Read all that is in a dump; return the sentence with which it is refused, or nothing."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns of pickles that its reader then refuses
            return self._complaint(path)

    def _complaint(self, path: Path) -> str:
        try:
            if not self.format.recognises(path):
                return ""
            dump = self.format.read(path)
            for rank in dump.ranks:
                for step in dump.steps(rank):
                    for row in dump.rows(step, rank):
                        if dump.has_tensors():
                            dump.tensors(row)
        except RecordingError as error:
            return str(error)
        return ""


def _files(path: Path) -> list[Path]:
    """Return the files of a dump that are damaged: of each suffix some, spread over the dump."""
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    kinds: dict[str, list[Path]] = {}
    for file in files:
        if 0 < file.stat().st_size <= _MOST_BYTES:
            kinds.setdefault(file.suffix, []).append(file)
    return [kind[place] for kind in kinds.values() for place in _spread(len(kind))]


def _spread(count: int) -> list[int]:
    """Return at most `_MOST_FILES` places among `count`, with the first and the last."""
    most = min(count, _MOST_FILES)
    return [place * (count - 1) // max(1, most - 1) for place in range(most)]


def _damaged(data: bytes) -> Iterator[bytes]:
    for share in _CUTS:
        yield data[: int(len(data) * share)]
    for share in _FLIPS:
        place = min(len(data) - 1, int(len(data) * share))
        yield data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


def _strangers(folder: Path) -> Iterator[Path]:
    """Yield paths that are no dump: nothing, empty ones, texts, a picture, and the folder of a Jumar recording."""
    yield folder / "missing"
    empty = folder / "empty"
    empty.mkdir()
    yield empty
    for name, data in {
        "notes.txt": b"",
        "train.log": b"step 1 loss 2.5\n",
        "picture.png": b"\x89PNG\r\n\x1a\n" + bytes(64),
        "script.py": b"import torch\n",
        "data.json": b'{"a": 1}',
        "anything": bytes(range(256)),
    }.items():
        (folder / name).write_bytes(data)
        yield folder / name
    recording = folder / "recording"
    (recording / "rank-0").mkdir(parents=True)
    (recording / "run.json").write_text("{}")
    yield recording
