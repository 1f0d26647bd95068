"""The frozen artefact: what is written is what is loaded, and nothing else is."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import graph_models as models
import pytest
import torch
from backend_models import EAGER, Net, fill_bank, net_inputs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plan_models import Plain

import jumar
from jumar.base.errors import OutputError, UsageError
from jumar.base.native import instructions
from jumar.cli.commands.tune.model import check_output
from jumar.tune.artefact import ArtefactError, freeze, load, write
from jumar.tune.artefact.manifest import GRAPH, MANIFEST, WEIGHTS
from jumar.tune.artefact.members import PIECE_BYTES, Members, checksum
from jumar.tune.graph.capture.capture import graph_of_module
from jumar.tune.graph.capture.captured import Captured
from jumar.tune.model import notes
from jumar.tune.model.errors import TuneError
from jumar.tune.model.machine import this_machine
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


class ByName(torch.nn.Module):
    def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
        return (x * scale).relu()


def test_a_model_that_takes_its_tensors_by_name_is_frozen_and_called_by_name(tmp_path: Path) -> None:
    model = ByName()
    x, scale = torch.randn(3, 4), torch.rand(4)
    bank = fill_bank(tmp_path, [graph_of_module(model, (x,), {"scale": scale}, folder=tmp_path).graph])
    freeze(model, (x,), tmp_path / "net.jumar", bank=bank, kwargs={"scale": scale})
    assert torch.equal(load(tmp_path / "net.jumar")(x, scale=scale), model(x, scale=scale))


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


@pytest.mark.parametrize("factory", [models.writes, models.batch_statistics, models.cached_keys])
def test_a_model_that_keeps_state_keeps_it_in_the_artefact_too(tmp_path: Path, factory: Any) -> None:
    model, args = factory()
    captured = graph_of_module(model, args, folder=tmp_path)
    write(tmp_path / "net.jumar", captured, PLAIN, engines=[Plain()])
    loaded = load(tmp_path / "net.jumar", engines=[Plain()])
    first = loaded(*args).clone()
    with torch.no_grad():
        assert torch.allclose(first, model.eval()(*args), atol=1e-6)
        for _ in range(3):
            assert torch.allclose(loaded(*args), model(*args), atol=1e-6)
    assert loaded.state.keys() == dict(model.named_buffers()).keys()
    assert all(torch.allclose(loaded.state[name], buffer, atol=1e-6) for name, buffer in model.named_buffers())
    loaded.reset()
    assert torch.equal(loaded(*args), first)


def test_an_argument_that_the_model_writes_to_is_written_to_whatever_its_strides(tmp_path: Path) -> None:
    def adds(x: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        total += x
        return total.sum()

    captured = graph_of_module(
        models.Function(adds), (torch.ones(2, 3), torch.zeros(2, 3)), folder=tmp_path, name="adds"
    )
    write(tmp_path / "net.jumar", captured, PLAIN, engines=[Plain()])
    loaded = load(tmp_path / "net.jumar", engines=[Plain()])
    for total in (torch.zeros(2, 3), torch.zeros(3, 2).t()):
        assert [float(loaded(torch.ones(2, 3), total)) for _ in range(2)] == [6.0, 12.0]
        assert total.tolist() == [[2.0] * 3] * 2


def test_numbers_among_the_arguments_are_those_it_was_frozen_with(tmp_path: Path) -> None:
    model, (given,) = models.nests()
    write(tmp_path / "net.jumar", graph_of_module(model, (given,), folder=tmp_path), PLAIN, engines=[Plain()])
    loaded = load(tmp_path / "net.jumar", engines=[Plain()])
    assert loaded(given).pair.count == 3
    with pytest.raises(UsageError, match="argument 1 must be 2, as the model was frozen; got 5"):
        loaded({"x": given["x"]._replace(count=5)})


def test_a_model_that_was_given_one_tensor_twice_takes_no_two(tmp_path: Path) -> None:
    x, other = torch.ones(2, 3), torch.zeros(2, 3)
    captured = graph_of_module(models.Function(lambda x, y, z: x - 2 * y + z), (x, other, x), folder=tmp_path)
    write(tmp_path / "net.jumar", captured, PLAIN, engines=[Plain()])
    loaded = load(tmp_path / "net.jumar", engines=[Plain()])
    assert torch.equal(loaded(other, x, other), torch.full((2, 3), -2.0))
    with pytest.raises(UsageError, match="arguments 0 and 2 must be one tensor, as when the model was frozen"):
        loaded(x, other, other)


def test_results_of_classes_that_are_not_imported_have_their_names_and_fields(tmp_path: Path) -> None:
    model, args = models.nests()
    write(tmp_path / "net.jumar", graph_of_module(model, args, folder=tmp_path), PLAIN, engines=[Plain()])
    loads = (
        "import torch, jumar, sys\n"
        "from collections import namedtuple\n"
        "from jumar.tune.artefact import load\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "from plan_models import Plain\n"
        f"model = load({str(tmp_path / 'net.jumar')!r}, engines=[Plain()])\n"
        "Pair = namedtuple('Pair', 'first count')\n"
        "made = model({'x': Pair(torch.zeros(2, 3), 2)})\n"
        "print(type(made).__name__, made.pair.count, made.missing, made.scores.shape[1], 'graph_models' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", loads], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["Answer", "3", "None", "3", "False"]


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
    with pytest.raises(UsageError, match="given by name must be those"):
        loaded(shift, image=image)


def frozen(model: torch.nn.Module, args: tuple[Any, ...], folder: Path, plan: Plan = EAGER) -> Path:
    write(folder / "net.jumar", graph_of_module(model, args, folder=folder), plan)
    return folder / "net.jumar"


@pytest.mark.parametrize(
    "sample", [torch.randn(136).unfold(0, 16, 8), torch.randn(16).expand(16, 16)], ids=["unfolded", "expanded"]
)
def test_a_sample_whose_elements_share_memory_does_not_make_those_of_others_share_it(
    tmp_path: Path, sample: torch.Tensor
) -> None:
    model = torch.nn.Linear(16, 4).eval()
    loaded = load(frozen(model, (sample,), tmp_path))
    with torch.no_grad():
        for given in (sample, torch.randn(16, 16), torch.randn(16, 16).t()):
            assert torch.allclose(loaded(given), model(given), atol=1e-5)


class MakesAnew(torch.nn.Module):
    """Returns what no argument decides, and a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.layer(x), torch.zeros(2, 4), torch.arange(3.0)[:2], self.layer.weight.exp(), self.layer.weight


@pytest.mark.parametrize("fallback", [False, True])
def test_results_that_are_weights_are_the_callers_to_write_to(tmp_path: Path, fallback: bool) -> None:
    model, x = MakesAnew().eval(), torch.randn(2, 4)
    path = frozen(model, (x,), tmp_path)
    if fallback:
        path = with_manifest(path, tmp_path / "foreign.jumar", machine=asdict(replace(this_machine(), torch="0")))
    loaded = load(path, fallback=fallback)
    with torch.no_grad():
        for _ in range(2):
            made = loaded(x)
            assert all(torch.allclose(*pair) for pair in zip(made, model(x), strict=True))
            for result in made:
                result.add_(1)


PLANS = [EAGER, Plan(regions=(Region(nodes=(), engine="onnxruntime"),))]


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_autocast_around_a_call_changes_nothing(tmp_path: Path, plan: Plan) -> None:
    if plan is not EAGER:
        pytest.importorskip("onnxruntime")
    model, x = torch.nn.Linear(64, 64).eval(), torch.randn(2, 64)
    loaded = load(frozen(model, (x,), tmp_path, plan))
    expected = loaded(x)
    with torch.autocast("cpu"):
        made = loaded(x)
        assert torch.is_autocast_enabled("cpu")
    assert (made.dtype, torch.equal(made, expected)) == (torch.float32, True)


class Halves(torch.nn.Module):
    """Divides integers, which gives PyTorch's default dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.layer(x / 2), x / 2


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_another_default_dtype_around_loading_and_calls_changes_nothing(tmp_path: Path, plan: Plan) -> None:
    if plan is not EAGER:
        pytest.importorskip("onnxruntime")
    x = torch.arange(8).view(2, 4)
    path = frozen(Halves().eval(), (x,), tmp_path, plan)
    loaded = load(path)
    expected = loaded(x)
    torch.set_default_dtype(torch.float64)
    try:
        made = [*loaded(x), *load(path)(x)]
        assert torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(one.dtype is torch.float32 for one in made)
    assert all(torch.allclose(*pair) for pair in zip(made, [*expected] * 2, strict=True))


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_another_default_device_around_loading_and_calls_changes_nothing(tmp_path: Path, plan: Plan) -> None:
    if plan is not EAGER:
        pytest.importorskip("onnxruntime")
    model, x = torch.nn.Linear(4, 1 << 14).eval(), torch.randn(4, 2).t()
    path = frozen(model, (x.contiguous(),), tmp_path, plan)
    with torch.device("meta"):
        made = load(path)(x)
        assert torch.empty(1).is_meta
    with torch.no_grad():
        assert torch.allclose(made, model(x), atol=1e-5)


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_what_is_loaded_in_inference_mode_is_called_outside_of_it(tmp_path: Path, plan: Plan) -> None:
    if plan is not EAGER:
        pytest.importorskip("onnxruntime")
    model, x = torch.nn.Linear(4, 4).eval(), torch.randn(2, 4)
    path = frozen(model, (x,), tmp_path, plan)
    with torch.inference_mode():
        loaded = load(path)
    with torch.no_grad():
        assert torch.allclose(loaded(x), model(x), atol=1e-6)


def test_a_model_that_keeps_state_keeps_it_from_one_mode_to_the_next(tmp_path: Path) -> None:
    model, args = models.writes()
    path = frozen(model, args, tmp_path)
    with torch.inference_mode():
        loaded = load(path)
        first = loaded(*args).tolist()
    assert [value * 2 for value in first] == loaded(*args).tolist()
    loaded.reset()
    assert loaded(*args).tolist() == first


def test_what_is_no_tensor_of_the_cpu_is_refused_in_one_line(artefact: Path) -> None:
    loaded = load(artefact, engines=[Plain()])
    shift, image = net_inputs()
    with pytest.raises(UsageError, match=r"on meta\. Freeze"):
        loaded(shift, image.to("meta"))
    with pytest.raises(UsageError, match=r"got a value of type numpy\.ndarray\. Freeze") as caught:
        loaded(shift, image.numpy())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"schema": 4}, "has schema 4"),
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


def test_a_processor_of_the_same_name_that_can_do_less_is_refused_or_runs_untuned(
    artefact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(artefact) as archive:
        manifest = json.loads(archive.read(MANIFEST))
    assert manifest["instructions"] == instructions()
    path = with_manifest(artefact, tmp_path / "foreign.jumar", instructions=[*instructions(), "avx1024_twice"])
    monkeypatch.setattr("jumar.tune.artefact.loading.instructions", lambda: ["avx2"])
    with pytest.raises(ArtefactError, match=r"a processor with .*, which this one has not\. Freeze it again here"):
        load(path, engines=[Plain()])
    assert not load(path, fallback=True, engines=[Plain()]).is_tuned
    monkeypatch.setattr("jumar.tune.artefact.loading.instructions", lambda: [*instructions(), "avx1024_twice"])
    assert load(path, engines=[Plain()]).is_tuned

    def as_before(members: dict[str, bytes]) -> None:
        del manifest["instructions"]
        members[MANIFEST] = json.dumps(manifest).encode()

    assert load(rewritten(artefact, tmp_path / "older.jumar", as_before), engines=[Plain()]).is_tuned


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


class Fixed(Plain):
    """Left all that it computes in its folder."""

    def build(self, site: Any, settings: Any) -> Any:
        (site.folder / "built").write_text("")
        return self.load(site, settings)

    def load(self, site: Any, settings: Any) -> Any:
        return lambda *_inputs: (torch.ones(2, 5), torch.zeros(2, 3))


def test_weights_that_no_engine_asks_for_are_not_read(captured: Captured, tmp_path: Path) -> None:
    path = tmp_path / "net.jumar"
    write(path, captured, PLAIN, engines=[Fixed()])

    def change(members: dict[str, bytes]) -> None:
        members[WEIGHTS] = members[WEIGHTS][:-1] + bytes([members[WEIGHTS][-1] ^ 1])

    damaged = rewritten(path, tmp_path / "changed.jumar", change)
    assert load(damaged, engines=[Fixed()]).is_tuned
    with pytest.raises(ArtefactError, match="not what its checksum says"):
        load(damaged, engines=[Plain()])


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 7])
def test_members_of_any_size_are_read_as_they_were_written(tmp_path: Path, size: int) -> None:
    content = random.Random(size).randbytes(size)
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as archive:
        archive.writestr("other", b"other")
        archive.writestr("name", content)
    members = Members(tmp_path / "some.zip")
    found, digest = members.read("name")
    members.close()
    assert bytes(found) == content
    assert digest == checksum(content) == checksum(memoryview(content))
    assert digest != checksum(content + b"0")


def test_a_file_that_was_compressed_is_refused(artefact: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(artefact) as given, zipfile.ZipFile(tmp_path / "net.jumar", "w", zipfile.ZIP_DEFLATED) as made:
        for name in given.namelist():
            made.writestr(name, given.read(name))
    with pytest.raises(ArtefactError, match="it is compressed"):
        load(tmp_path / "net.jumar", engines=[Plain()])


@pytest.mark.parametrize(
    "name", ["site/../../evil", "site/{outside}", "site//{outside}", "site/a/../../../evil", "site/..", "site/C:/evil"]
)
def test_a_member_outside_of_the_folder_is_refused(artefact: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    name = name.format(outside=outside)

    def change(members: dict[str, bytes]) -> None:
        manifest = json.loads(members[MANIFEST])
        manifest["checksums"][name] = checksum(b"evil")
        members[MANIFEST] = json.dumps(manifest).encode()
        members[name] = b"evil"

    path = rewritten(artefact, tmp_path / "changed.jumar", change)
    with pytest.raises(ArtefactError, match="outside of its folder"):
        load(path, engines=[Plain()])
    assert not outside.exists()


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


def test_what_a_run_that_was_cut_short_left_is_replaced_by_the_same_command_only(
    captured: Captured, artefact: Path, tmp_path: Path
) -> None:
    left, link = tmp_path / "net.jumar", tmp_path / "link.jumar"
    write(left, captured, PLAIN, engines=[Plain()], open_for="net.onnx")
    link.symlink_to(left)
    check_output(left, 1, "net.onnx")
    for taken, source in ((left, "other.onnx"), (artefact, "net.onnx"), (link, "net.onnx")):
        with pytest.raises(OutputError, match="exists and is not replaced"):
            check_output(taken, 1, source)


def test_a_process_that_has_loaded_an_artefact_and_is_killed_leaves_nothing(artefact: Path, tmp_path: Path) -> None:
    """Whatever ends it: what the engines left is mapped, and its folder is gone when `load` returns."""
    room = tmp_path / "temporary"
    room.mkdir()
    kept = tempfile.tempdir
    tempfile.tempdir = str(room)
    try:
        loaded = load(artefact, engines=[Plain()])
        assert list(room.iterdir()) == []
        assert loaded(*net_inputs())["scores"].shape
        assert os.environ.get("TMPDIR") != str(room)
    finally:
        tempfile.tempdir = kept
