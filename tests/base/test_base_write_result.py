from __future__ import annotations

from pathlib import Path

import pytest

from jumar.base.errors import OutputError
from jumar.base.files import write_result


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_text_is_written_as_utf8_with_its_folders(tmp_path: Path) -> None:
    write_result(tmp_path / "a" / "b.html", "µ 模\n")
    assert (tmp_path / "a" / "b.html").read_bytes() == "µ 模\n".encode()


def test_an_existing_file_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("mine")
    with pytest.raises(OutputError, match="--force"):
        write_result(path, "new")
    assert path.read_text() == "mine"


def test_force_replaces_and_leaves_nothing_else_behind(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("mine")
    write_result(path, "new", force=True)
    assert path.read_text() == "new"
    assert names(tmp_path) == ["page.html"]


def test_a_write_that_fails_keeps_the_old_file_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "page.html"
    path.write_text("mine")

    def fail(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OutputError, match="No space left"):
        write_result(path, "new", force=True)
    assert (path.read_text(), names(tmp_path)) == ("mine", ["page.html"])


def test_a_folder_is_not_a_place_for_text(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="folder"):
        write_result(tmp_path, "x", force=True)


def test_a_folder_that_cannot_be_made_is_named_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError) as caught:
        write_result(tmp_path / "file" / "page.html", "x")
    assert str(tmp_path / "file" / "page.html") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_broken_link_counts_as_existing(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputError, match="exists"):
        write_result(tmp_path / "link", "x")


def test_half_a_surrogate_pair_is_written_as_an_escape(tmp_path: Path) -> None:
    write_result(tmp_path / "f", "caf\udce9")
    assert (tmp_path / "f").read_text() == "caf\\udce9"
