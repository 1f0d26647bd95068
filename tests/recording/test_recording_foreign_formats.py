"""The registry of dump formats: what every format promises, and how another distribution adds one."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.recording.foreign import recognise
from jumar.recording.foreign.dump import Dump, DumpFormat
from jumar.recording.foreign.recognise import formats, opened

FORMATS = list(formats())


@pytest.mark.parametrize("known", FORMATS, ids=[known.name for known in FORMATS])
def test_a_format_recognises_nothing_in_an_empty_place_and_raises_nothing(known, tmp_path) -> None:
    empty = tmp_path / "notes.txt"
    empty.write_bytes(b"")
    (tmp_path / "folder").mkdir()
    assert [known.recognises(path) for path in (empty, tmp_path / "folder", tmp_path / "missing")] == [False] * 3


def test_a_format_of_another_distribution_is_opened(tmp_path, monkeypatch) -> None:
    def read(path: Path) -> Dump:
        return Dump(path, "mine", {})

    mine = DumpFormat("a file of mine", lambda path: path.suffix == ".mine", read)

    monkeypatch.setattr(recognise.installed_formats(), "parts", lambda: (mine,))
    file = tmp_path / "run.mine"
    file.write_text("anything")
    assert opened(file).info.environment["format"] == "mine"
