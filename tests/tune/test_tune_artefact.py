"""The frozen artefact: what is written is what is loaded, and nothing else is."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from backend_models import EAGER, Net, fill_bank, net_inputs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plan_models import Plain

import jumar
from jumar.errors import OutputError, UsageError
from jumar.tune.artefact import ArtefactError, freeze, load, write
from jumar.tune.artefact.manifest import GRAPH, MANIFEST, WEIGHTS
from jumar.tune.backend import notes
from jumar.tune.errors import TuneError
from jumar.tune.graph.capture import graph_of_module
from jumar.tune.graph.captured import Captured
from jumar.tune.plan import Plan, Region

PLAIN = Plan(regions=(Region(nodes=(), engine="plain", version="1"),))


@pytest.fixture(autouse=True)
def unsaid() -> Iterator[None]:
    notes.forget()
    yield
    notes.forget()


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    return graph_of_module(Net(), net_inputs(), folder=tmp_path_factory.mktemp("graph"), name="net")


@pytest.fixture(scope="module")
def artefact(captured: Captured, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("artefact") / "net.jumar"
    write(path, captured, PLAIN, engines=[Plain()])
    return path


def rewritten(path: Path, target: Path, change: Any) -> Path:
    """Write the artefact again with `change` applied to its members (name to content)."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target


def with_manifest(path: Path, target: Path, **fields: Any) -> Path:
    def change(members: dict[str, bytes]) -> None:
        members[MANIFEST] = json.dumps(json.loads(members[MANIFEST]) | fields).encode()

    return rewritten(path, target, change)


def test_a_model_of_the_bank_is_frozen_and_loaded_as_it_was_called(tmp_path: Path) -> None:
    model = Net().eval()
    bank = fill_bank(tmp_path, [graph_of_module(model, net_inputs(), folder=tmp_path).graph])
    manifest = freeze(model, net_inputs(), tmp_path / "net.jumar", bank=bank)
    bank.close()
    loaded = jumar.load(tmp_path / "net.jumar")
    with torch.no_grad():
        expected = model(*net_inputs())
    actual = loaded(*net_inputs())
    assert list(actual) == ["scores", "features"]
    assert all(torch.equal(expected[name], actual[name]) for name in expected)
    assert (manifest.plan, loaded.is_tuned) == (EAGER, True)


def test_a_model_that_the_bank_does_not_know_cannot_be_frozen(tmp_path: Path) -> None:
    with EmptyBank(tmp_path) as bank, pytest.raises(TuneError, match="nothing to freeze"):
        freeze(Net(), net_inputs(), tmp_path / "net.jumar", bank=bank)
    assert not (tmp_path / "net.jumar").exists()


class EmptyBank:
    def __init__(self, folder: Path) -> None:
        self.bank = fill_bank(folder, [])

    def __enter__(self) -> Any:
        return self.bank

    def __exit__(self, *_exception: object) -> None:
        self.bank.close()


def test_loading_does_not_build(artefact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_arguments: object) -> None:
        raise AssertionError("it was built already")

    monkeypatch.setattr(Plain, "build", build)
    assert load(artefact, engines=[Plain()]).is_tuned


def test_other_strides_are_taken_and_other_sizes_refused(artefact: Path) -> None:
    loaded = load(artefact, engines=[Plain()])
    shift, image = net_inputs()
    usual = loaded(shift, image)
    strided = loaded(shift, image.to(memory_format=torch.channels_last))
    assert torch.equal(usual["scores"], strided["scores"])
    with pytest.raises(UsageError, match="must be torch"):
        loaded(shift, image[:1])
    with pytest.raises(UsageError, match="the arguments must be those"):
        loaded(shift)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"schema": 2}, "has schema 2"),
        ({"key": "0" * 64}, "another than its manifest says"),
        ({"checksums": {}}, "not those that its manifest names"),
        ({"plan": "none"}, "damaged, cut short or no artefact"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(
    artefact: Path, tmp_path: Path, fields: dict[str, Any], sentence: str
) -> None:
    path = with_manifest(artefact, tmp_path / "changed.jumar", **fields)
    for fallback in (False, True):
        with pytest.raises(ArtefactError, match=sentence):
            load(path, fallback=fallback, engines=[Plain()])


@pytest.mark.parametrize(
    ("field", "sentence"), [("model", "made for processor"), ("torch", "made for PyTorch"), ("capability", "vector")]
)
def test_another_machine_is_refused_or_runs_untuned_on_request(
    artefact: Path, tmp_path: Path, field: str, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    with zipfile.ZipFile(artefact) as archive:
        machine = json.loads(archive.read(MANIFEST))["machine"]
    path = with_manifest(artefact, tmp_path / "foreign.jumar", machine=machine | {field: "another"})
    with pytest.raises(ArtefactError, match=sentence):
        load(path, engines=[Plain()])
    loaded = load(path, fallback=True, engines=[Plain()])
    here = load(artefact, engines=[Plain()])
    assert torch.equal(loaded(*net_inputs())["scores"], here(*net_inputs())["scores"])
    assert not loaded.is_tuned
    assert "runs untuned" in caplog.text


def test_another_engine_version_is_refused(artefact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plain, "version", lambda _self: "2")
    with pytest.raises(ArtefactError, match="plain 1, and 2 is here"):
        load(artefact, engines=[Plain()])


@pytest.mark.parametrize("name", [GRAPH, WEIGHTS, "site/built"])
def test_a_member_that_is_not_what_its_checksum_says_is_refused(artefact: Path, tmp_path: Path, name: str) -> None:
    def change(members: dict[str, bytes]) -> None:
        members[name] = members[name][:-1] + bytes([members[name][-1] ^ 1])

    path = rewritten(artefact, tmp_path / "changed.jumar", change)
    with pytest.raises(ArtefactError, match="not what its checksum says"):
        load(path, engines=[Plain()])


def test_a_member_outside_of_the_folder_is_refused(artefact: Path, tmp_path: Path) -> None:
    from jumar.tune.artefact.manifest import checksum

    def change(members: dict[str, bytes]) -> None:
        manifest = json.loads(members[MANIFEST])
        manifest["checksums"]["site/../../evil"] = checksum(b"evil")
        members[MANIFEST] = json.dumps(manifest).encode()
        members["site/../../evil"] = b"evil"

    path = rewritten(artefact, tmp_path / "changed.jumar", change)
    with pytest.raises(ArtefactError, match="outside of its folder"):
        load(path, engines=[Plain()])


@settings(derandomize=True, max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_anywhere_is_one_sentence_or_no_difference(artefact: Path, tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(artefact.read_bytes())
    cut = data.draw(st.booleans())
    at = data.draw(st.integers(0, len(content) - 1))
    damaged = content[:at] if cut else content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]
    path = tmp_path / "damaged.jumar"
    path.write_bytes(damaged)
    try:
        loaded = load(path, engines=[Plain()])
    except ArtefactError:
        return
    assert torch.equal(loaded(*net_inputs())["scores"], load(artefact, engines=[Plain()])(*net_inputs())["scores"])


def test_what_is_no_artefact_and_what_cannot_be_written(captured: Captured, tmp_path: Path) -> None:
    with pytest.raises(ArtefactError, match="no such file"):
        load(tmp_path / "none.jumar")
    (tmp_path / "text.jumar").write_text("text")
    with pytest.raises(ArtefactError, match="damaged, cut short or no artefact"):
        load(tmp_path / "text.jumar")
    with pytest.raises(OutputError, match="cannot be written"):
        write(tmp_path / "missing" / "net.jumar", captured, PLAIN, engines=[Plain()])
