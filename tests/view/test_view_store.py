"""What lies in a folder is found, described, and found again when it changes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from view_results import doctor, record

from jumar.base.errors import InputError
from jumar.view.store.catalogue import Catalogue, search
from jumar.view.store.folder import Folder
from jumar.view.store.items import Item


def found(folder: Path) -> dict[str, Item]:
    return {item.place: item for item in Catalogue(Folder(folder)).look().items}


def test_each_kind_of_result_is_found_with_its_verdict(results: Path) -> None:
    told = {place: (item.kind, item.about.state) for place, item in found(results).items()}
    assert told == {
        "runs/reference": ("recording", "fine"),
        "runs/target": ("recording", "fine"),
        "runs/killed": ("recording", "running"),
        "ported": ("port", "failed"),
        "ported/reference": ("recording", "fine"),
        "ported/npu": ("recording", "fine"),
        "accuracy.json": ("comparison", "failed"),
        "accuracy.html": ("comparison", "failed"),
        "job.json": ("doctor", "failed"),
        "machine.json": ("doctor", "attention"),
        "profiled": ("profile", "none"),
        "tuning/aoe_workspace/reference_0123456789abcdef.job": ("tuning", "running"),
        "tuning/aoe_result_opat_20260102030405006_pid7.json": ("tuning", "fine"),
        "tuning/jumar_tune_bank.sqlite3": ("bank", "none"),
    }


def test_what_a_port_copied_is_not_a_result(results: Path) -> None:
    assert (results / "ported" / "work" / "npu" / "left-out" / "run.json").is_file()
    assert not any("left-out" in place for place in found(results))


def test_the_newest_result_comes_first(tmp_path: Path) -> None:
    for name, time in (("old", 1_000), ("new", 3_000), ("middle", 2_000)):
        doctor(tmp_path)
        (tmp_path / "job.json").rename(tmp_path / f"{name}.json")
        (tmp_path / "machine.json").unlink()
        os.utime(tmp_path / f"{name}.json", (time, time))
    assert list(found(tmp_path)) == ["new.json", "middle.json", "old.json"]


def test_a_new_result_changes_the_version_and_nothing_else_does(tmp_path: Path) -> None:
    catalogue = Catalogue(Folder(tmp_path))
    first = catalogue.look(fresh=True).version
    assert catalogue.look(fresh=True).version == first
    doctor(tmp_path)
    assert catalogue.look(fresh=True).version == first + 1
    (tmp_path / "notes.txt").write_text("no result")
    assert catalogue.look(fresh=True).version == first + 1


def test_a_run_that_goes_on_is_described_anew_after_each_step(tmp_path: Path) -> None:
    record(tmp_path / "run", steps=2, ended=False)
    catalogue = Catalogue(Folder(tmp_path))
    assert catalogue.look().items[0].about.headline.startswith("2 steps, 0 to 1. The run goes on")
    record(tmp_path / "other", steps=3)
    (tmp_path / "other" / "steps" / "step-000002-rank-0.parquet").rename(
        tmp_path / "run" / "steps" / "step-000002-rank-0.parquet"
    )
    items = {item.place: item for item in catalogue.look(fresh=True).items}
    assert items["run"].about.headline.startswith("3 steps, 0 to 2.")


@pytest.mark.parametrize(
    ("words", "places"),
    [
        ("killed.py", ["runs/killed"]),
        ("LIBHCCL doctor", ["job.json"]),
        ("layers.1.attn", ["accuracy.html", "accuracy.json", "ported"]),
        ("runs/reference job", ["tuning/aoe_workspace/reference_0123456789abcdef.job"]),
        ("no such words", []),
    ],
)
def test_a_search_finds_results_in_which_every_word_stands(results: Path, words: str, places: list[str]) -> None:
    assert sorted(item.place for item in search(list(found(results).values()), words)) == places


def test_a_search_within_a_kind_leaves_others_out(results: Path) -> None:
    assert [item.place for item in search(list(found(results).values()), "layers.1", "port")] == ["ported"]


@pytest.mark.parametrize(
    ("name", "text", "headline"),
    [
        ("cut.json", '{"schema_version": 1, "jumar_version": "1", "findings": [', "is cut short or damaged"),
        ("list.json", '{"schema_version": 1, "jumar_version": "1"} x', "is cut short or damaged"),
        ("aoe_result_opat_1_pid2.json", "[1, 2", "cut short|damaged"),
        ("aoe_result_sgat_1_pid2.json", "{}", "no part `basic`"),
        ("half.job", '{"jumar_job": 1, "na', "cut short in its first line"),
    ],
)
def test_a_damaged_file_is_shown_as_such_and_hides_no_other(
    tmp_path: Path, name: str, text: str, headline: str
) -> None:
    (tmp_path / name).write_text(text)
    doctor(tmp_path)
    items = found(tmp_path)
    assert set(items) == {name, "job.json", "machine.json"}
    assert items[name].about.state == "failed"
    assert any(part in items[name].about.headline for part in headline.split("|")), items[name].about.headline


def test_a_recording_whose_first_file_is_damaged_is_shown_as_such(tmp_path: Path) -> None:
    record(tmp_path / "run")
    (tmp_path / "run" / "run.json").write_text("{")
    (item,) = found(tmp_path).values()
    assert (item.kind, item.about.state) == ("recording", "failed")


def test_findings_that_are_none_do_not_hide_the_document(tmp_path: Path) -> None:
    document = {"schema_version": 1, "jumar_version": "1", "findings": [{"code": 3}, None, 7]}
    (tmp_path / "odd.json").write_text(json.dumps(document))
    assert found(tmp_path)["odd.json"].about.headline == "Nothing found."


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    record(tmp_path / "outside" / "run")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "linked").symlink_to(tmp_path / "outside" / "run")
    doctor(tmp_path / "outside")
    (inside / "job.json").symlink_to(tmp_path / "outside" / "job.json")
    assert found(inside) == {}


def test_a_folder_that_links_to_itself_is_scanned_once(tmp_path: Path) -> None:
    record(tmp_path / "run")
    (tmp_path / "again").symlink_to(tmp_path)
    assert list(found(tmp_path)) == ["run"]


def test_json_of_other_programs_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "x", "version": "1"}')
    (tmp_path / "page.html").write_text("<html><title>Bottlenecks</title></html>")
    assert found(tmp_path) == {}


def test_what_is_no_folder_is_refused_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path in (file, tmp_path / "absent"):
        with pytest.raises(InputError, match="Name"):
            Folder(path)
