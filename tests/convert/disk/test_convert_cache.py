"""Results kept between runs: never wrong, never fatal, never without bound."""

from __future__ import annotations

import importlib.metadata
import json
import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.base.findings import Edit, Finding, Location, Severity
from jumar.convert import Conversion, ConvertOptions, Failure, Skip, Success, convert_tree
from jumar.convert.disk import cache as cache_module
from jumar.convert.disk import memory as memory_module
from jumar.convert.disk.cache import Cache, cache_folder, decode_outcome, encode_outcome, fingerprint
from jumar.convert.engine import converting as converting_module


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JUMAR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(converting_module, "_CACHED_BYTES", 0)
    return tmp_path / "cache"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.py").write_text("import torch\nx.cuda()\ny.to('cuda')\n")
    (root / "b.py").write_bytes("# -*- coding: gbk -*-\n# 设备\nimport torch\nz = torch.cuda.nvtx\n".encode("gbk"))
    (root / "c.yaml").write_text("device: cuda\n")
    (root / "bad.py").write_text("print 'cuda'\n")
    return root


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of files that were really converted, not remembered."""
    seen: list[str] = []
    convert_file = converting_module.convert_file

    def watch(data, path, *args, **kwargs):  # type: ignore[no-untyped-def]
        seen.append(path)
        return convert_file(data, path, *args, **kwargs)

    monkeypatch.setattr(converting_module, "convert_file", watch)
    return seen


def entries(folder: Path) -> list[Path]:
    return [path for path in (folder / "convert").glob("??/*") if path.is_file()]


def test_a_second_run_converts_nothing_and_says_the_same(folder: Path, tree: Path, conversions: list[str]) -> None:
    first = convert_tree(tree)
    assert sorted(conversions) == ["a.py", "b.py", "bad.py", "c.yaml"]
    conversions.clear()
    assert convert_tree(tree) == first
    assert conversions == []


def test_a_changed_file_is_converted_anew_and_no_other(folder: Path, tree: Path, conversions: list[str]) -> None:
    convert_tree(tree)
    conversions.clear()
    (tree / "a.py").write_text("import torch\nx.cuda(1)\n")
    assert b"x.npu(1)" in convert_tree(tree).files[0].after
    assert conversions == ["a.py"]


def test_other_options_are_another_conversion(folder: Path, tree: Path, conversions: list[str]) -> None:
    convert_tree(tree)
    conversions.clear()
    convert_tree(tree, ConvertOptions(disable=frozenset({"JM103"})))
    assert len(conversions) == 4


def test_what_other_files_say_counts(folder: Path, tree: Path) -> None:
    (tree / "main.py").write_text("from dev import acc\ngraph = acc.CUDAGraph\n")
    (tree / "dev.py").write_text("from torch import cuda as acc\n")
    assert b"NPUGraph" in {outcome.path: outcome.after for outcome in convert_tree(tree).files}["main.py"]
    (tree / "dev.py").write_text("class acc: CUDAGraph = 1\n")
    assert b"NPUGraph" not in {outcome.path: outcome.after for outcome in convert_tree(tree).files}["main.py"]


def test_another_program_starts_anew(
    folder: Path, tree: Path, conversions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    convert_tree(tree)
    conversions.clear()
    monkeypatch.setattr(memory_module, "program_fingerprint", lambda: "another")
    convert_tree(tree)
    assert len(conversions) == 4


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "folder"])
def test_a_damaged_entry_is_ignored_and_written_again(
    folder: Path, tree: Path, conversions: list[str], damage: str
) -> None:
    first = convert_tree(tree)
    for path in entries(folder):
        data = path.read_bytes()
        path.unlink()
        if damage == "folder":
            path.mkdir()
        else:
            flipped = data[:40] + bytes([data[40] ^ 1]) + data[41:]
            path.write_bytes({"cut": data[:-3], "flipped": flipped, "empty": b"", "text": b"{}"}[damage])
    conversions.clear()
    assert convert_tree(tree) == first
    assert len(conversions) == 4
    conversions.clear()
    assert convert_tree(tree) == first
    assert conversions == [] or damage == "folder"  # a folder in an entry's place stays; it is in nobody's way


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = convert_tree(tree, cache=False)
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("JUMAR_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(converting_module, "_CACHED_BYTES", 0)
    assert convert_tree(tree) == expected


def test_summaries_and_quiet_files_are_remembered_too(
    folder: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.py", "b.py", "bad.py"):
        (tree / name).write_text(f"name = {name!r}\n")
    first = convert_tree(tree)
    with monkeypatch.context() as patch:
        patch.setattr(converting_module, "triggers", None)  # asking again would fail
        patch.setattr(converting_module, "summarise", None)
        assert convert_tree(tree) == first
        (tree / "a.py").write_text("x = 2\n")
        with pytest.raises(TypeError):
            convert_tree(tree)
    (tree / "a.py").write_text("import torch\nx.cuda()\n")
    assert [outcome.path for outcome in convert_tree(tree).changed] == ["a.py", "c.yaml"]


def test_without_the_cache_nothing_is_kept(folder: Path, tree: Path) -> None:
    convert_tree(tree, cache=False)
    assert not folder.exists()


def test_a_small_conversion_leaves_nothing(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUMAR_CACHE_DIR", str(tmp_path / "cache"))
    convert_tree(tree)
    assert not (tmp_path / "cache").exists()


def test_a_defect_is_not_remembered(folder: Path, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise KeyError("oh")

    with monkeypatch.context() as patch:
        patch.setattr(converting_module, "convert_file", broken)
        assert len(convert_tree(tree).failures) == 4
    assert len(convert_tree(tree).failures) == 1


def test_many_runs_at_once_agree(folder: Path, tree: Path) -> None:
    expected = convert_tree(tree, cache=False)
    found: list[Conversion] = []
    threads = [threading.Thread(target=lambda: found.append(convert_tree(tree))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 6
    assert not [path for path in entries(folder) if path.name.endswith(".part")]


def test_the_oldest_entries_go_when_there_are_too_many(tmp_path: Path) -> None:
    store = Cache(tmp_path, max_bytes=50_000)
    for number in range(20):
        store.write(f"{number:064x}", "x" * 5000)
        path = tmp_path / "convert" / "00" / f"{number:062x}"
        os.utime(path, (time.time() - 1000 + number,) * 2)
    store.prune()
    kept = sorted(int(path.name, 16) for path in entries(tmp_path))
    assert kept == list(range(11, 20))
    assert sum(path.stat().st_size for path in entries(tmp_path)) <= 50_000


def test_what_a_killed_run_left_goes_after_a_while(tmp_path: Path) -> None:
    store = Cache(tmp_path)
    store.write("0" * 64, 1)
    for name, age in [("young", 10), ("old", 10_000)]:
        path = tmp_path / "convert" / "00" / f".{name}.1.part"
        path.write_bytes(b"x")
        os.utime(path, (time.time() - age,) * 2)
    store.prune()
    assert [path.name for path in entries(tmp_path) if ".part" in path.name] == [".young.1.part"]


def test_an_entry_in_use_is_noted_as_young(tmp_path: Path) -> None:
    store = Cache(tmp_path)
    store.write("0" * 64, [1])
    path = tmp_path / "convert" / "00" / ("0" * 62)
    os.utime(path, (time.time() - 100_000,) * 2)
    assert store.read("0" * 64) == [1]
    assert time.time() - path.stat().st_mtime < 1000


def test_the_folder_is_where_the_user_wants_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JUMAR_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "jumar"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the standard says to ignore it then
    assert cache_folder() == Path.home() / ".cache" / "jumar"
    monkeypatch.setenv("JUMAR_CACHE_DIR", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"


def test_without_a_home_folder_sources_are_converted_and_nothing_is_kept(
    folder: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    expected = convert_tree(tree, cache=False)
    monkeypatch.setattr(Path, "home", nowhere)
    for name in ("JUMAR_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cache_folder() is None
    assert convert_tree(tree) == expected
    assert not folder.exists()


def test_fingerprints_depend_on_values_and_not_on_the_order_of_sets() -> None:
    names = [f"JM{number}" for number in range(100, 160)]
    assert fingerprint(frozenset(names)) == fingerprint(frozenset(reversed(names)))
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    assert fingerprint(ConvertOptions()) == fingerprint(ConvertOptions())
    assert (
        len({fingerprint(value) for value in (None, 1, "1", ConvertOptions(), ConvertOptions(unsafe=True), [1])}) == 6
    )
    assert fingerprint("a", "b") != fingerprint("ab")


def test_the_program_is_its_sources_and_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache_module.program_fingerprint.__wrapped__()
    assert before == cache_module.program_fingerprint.__wrapped__()
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0")
    assert before != cache_module.program_fingerprint.__wrapped__()


texts = st.text(st.characters(codec=None), max_size=20)
places = st.builds(Location, path=texts, line=st.none() | st.integers(1, 99), column=st.none() | st.integers(1, 99))
edits = st.builds(Edit, path=texts, start_line=st.just(1), end_line=st.just(2), before=texts, after=texts)
findings = st.builds(
    Finding,
    code=st.just("JM101"),
    severity=st.sampled_from(Severity),
    message=texts,
    where=places,
    evidence=st.dictionaries(texts, st.none() | st.booleans() | st.integers() | texts | st.lists(texts)),
    edit=st.none() | edits,
)


@given(st.lists(findings, max_size=3), st.binary(), st.binary(), st.sampled_from(["Success", "Skip", "Failure"]))
def test_an_outcome_comes_back_equal(found: list[Finding], before: bytes, after: bytes, kind: str) -> None:
    shared = {"path": "a.py", "before": before, "findings": tuple(found), "num_edits": len(found)}
    outcome = {
        "Success": lambda: Success(**shared, after=after),
        "Skip": lambda: Skip(**shared, reason="why"),
        "Failure": lambda: Failure(**shared, error="why"),
    }[kind]()
    assert decode_outcome(json.loads(json.dumps(encode_outcome(outcome))), "a.py", before) == outcome


@pytest.mark.parametrize("value", [None, [], {}, {"kind": "Success"}, {"kind": 1, "findings": 3}, {"findings": [{}]}])
def test_an_entry_of_another_form_is_no_outcome(value: object) -> None:
    assert decode_outcome(value, "a.py", b"") is None
