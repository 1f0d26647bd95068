"""Entries of the user and of other distributions: where they are read from, and what is said of wrong ones."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from jumar.advise.doctor.entries import known_errors, parse_entries
from jumar.advise.doctor.entries.installed import INSTALLED, built_in
from jumar.advise.doctor.entries.own import ENVIRONMENT, completed
from jumar.advise.doctor.entries.store import load_entries
from jumar.base.errors import InputError

ENTRY: dict[str, Any] = {
    "name": "own-quota",
    "kind": "message",
    "needle": "quota of ",
    "pattern": r"quota of \w+ is used up",
    "title": "No hours are left",
    "cause": "The quota is used up.",
    "action": "Ask for more hours.",
    "example": "scheduler: quota of vision is used up",
}


@pytest.fixture(autouse=True)
def _no_entries_of_this_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv(ENVIRONMENT, raising=False)


def write(folder: Path, *entries: dict[str, Any], name: str = "mine.json", **document: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps({"version": 1, "errors": entries, **document}), "utf-8")
    return folder


def found(line: str, folder: Path) -> list[str]:
    matches = known_errors([folder]).searcher(line.encode()).search(line)
    return [match.signature.name for match in matches if match.signature]


def test_an_entry_in_json_is_recognised_with_the_defaults(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", ENTRY)
    assert found("x: quota of speech is used up", folder) == ["own-quota"]
    signature = known_errors([folder]).signatures[0]
    assert (signature.severity.label, signature.role) == ("error", "cause")
    assert str(folder / "mine.json") in signature.source


def test_an_entry_in_toml_is_recognised(tmp_path: Path) -> None:
    lines = [f"{key} = {json.dumps(value)}" for key, value in ENTRY.items()]
    (tmp_path / "mine.toml").write_text("version = 1\n[[errors]]\n" + "\n".join(lines) + "\n", "utf-8")
    assert found("quota of speech is used up", tmp_path) == ["own-quota"]


def test_folders_of_the_variable_and_of_the_configuration_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = [write(tmp_path / name, {**ENTRY, "name": name}) for name in ("first", "second")]
    monkeypatch.setenv(ENVIRONMENT, os.pathsep.join(map(str, named)))
    write(tmp_path / "config" / "jumar" / "doctor", {**ENTRY, "name": "third"})
    assert [one.name for one in known_errors().signatures[:3]] == ["first", "second", "third"]


def test_a_users_entry_stands_for_the_one_of_the_same_name_and_this_is_said(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", {**ENTRY, "name": "kernel-oom-killer"})
    loaded = load_entries([folder])
    assert [one.title for one in loaded.table.signatures if one.name == "kernel-oom-killer"] == ["No hours are left"]
    assert loaded.replaced == ("kernel-oom-killer",)
    assert "kernel-oom-killer" in loaded.notes[0]
    assert len(loaded.table.signatures) == len(built_in())


def test_a_users_code_is_looked_up_before_those_of_jumar(tmp_path: Path) -> None:
    code = {**ENTRY, "name": "mine", "kind": "code", "pattern": "EI0006", "example": "EI0006: x"}
    del code["needle"]
    signature = known_errors([write(tmp_path / "a", code)]).of_code("EI0006")
    assert signature is not None
    assert signature.name == "mine"


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"kind": "rumour"}, "known kinds and roles"),
        ({"role": "culprit"}, "known kinds and roles"),
        ({"pattern": "quota ("}, "a regular expression"),
        ({"pattern": "(quota)?"}, "does not match an empty line"),
        ({"needle": ""}, "have a needle if it is a message"),
        ({"title": ""}, "have a text as its title"),
        ({"cause": 3}, "have a text as its cause"),
        ({"severity": "deadly"}, "one of the severities"),
        ({"over": "x"}, "a list of names as `over`"),
        ({"colour": "red"}, "have no field 'colour'"),
    ],
)
def test_a_wrong_entry_names_its_file_its_name_and_the_broken_rule(
    change: dict[str, Any], rule: str, tmp_path: Path
) -> None:
    folder = write(tmp_path / "a", {**ENTRY, **change})
    with pytest.raises(InputError) as caught:
        known_errors([folder])
    assert str(folder / "mine.json") in str(caught.value)
    assert "own-quota" in str(caught.value)
    assert rule in str(caught.value)


@pytest.mark.parametrize(("name", "text"), [("a.json", "{"), ("a.toml", "x = "), ("a.json", "[]"), ("a.toml", "x = 1")])
def test_a_file_that_is_no_document_is_named(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=name):
        known_errors([tmp_path])


def test_two_entries_of_one_name_in_a_folder_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a", ENTRY)
    with pytest.raises(InputError, match=r"two\.json.*is in mine\.json, too"):
        known_errors([write(tmp_path / "a", ENTRY, name="two.json")])


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be a folder with entries"):
        known_errors([tmp_path / "nowhere"])


def test_without_a_home_the_entries_of_jumar_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jumar.advise.doctor.entries.own.config_folder", lambda: None)
    assert known_errors().signatures == built_in()


def test_entries_of_an_installed_distribution_come_before_those_of_jumar() -> None:
    part = parse_entries(completed({"errors": [ENTRY]}, "acme"))
    with INSTALLED.holding(part):
        assert known_errors().signatures[0].name == "own-quota"
    assert all(one.name != "own-quota" for one in known_errors().signatures)
