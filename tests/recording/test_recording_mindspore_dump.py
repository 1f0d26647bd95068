"""Dumps that MindSpore 2.10.0 wrote (assets/mindspore/make.py): calls, layers, parameters, optimizers."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from jumar.base.errors import JumarError
from jumar.capture import record
from jumar.comparison import compare
from jumar.comparison.overflow import find_overflow
from jumar.recording.foreign.recognise import opened

ASSETS = Path(__file__).parent / "assets" / "mindspore"


def unpacked(folder: Path, name: str) -> Path:
    with zipfile.ZipFile(ASSETS / f"{name}.zip") as archive:
        archive.extractall(folder / name)
    return folder / name


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("dumps"), "graph")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.relu, self.out = nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)

    def forward(self, x):
        return self.out(self.relu(self.fc(x)))


def reference(folder: Path, *, rate: float = 0.1, slope: float = 0.0) -> Path:
    net = Net()
    if slope:
        net.relu = nn.LeakyReLU(slope)
    rng = np.random.RandomState(0)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.from_numpy(rng.randn(*parameter.shape).astype(np.float32)))
    optimizer, loss_of = torch.optim.SGD(net.parameters(), rate, momentum=0.9), nn.MSELoss()
    with record(folder, model=net):
        for step in (1, 2):
            optimizer.zero_grad()
            loss_of(net(torch.full((2, 3), float(step))), torch.zeros(2, 2)).backward()
            optimizer.step()
    return folder


def test_files_become_calls_in_the_order_of_the_graph(graph: Path) -> None:
    dump = opened(graph)
    assert dump.steps() == [0, 1]
    assert dump.info.framework == "mindspore"
    assert dump.warnings == []
    rows = dump.rows(0)
    forward = [(row.module_path, row.name) for row in rows if row.kind == "op" and row.phase == "forward"]
    assert forward[:5] == [
        ("fc", "ms::MatMul"), ("fc", "ms::BiasAdd"), ("relu", "ms::ReLU"), ("out", "ms::MatMul"),
        ("out", "ms::BiasAdd"),
    ]  # fmt: skip
    assert {row.phase for row in rows if row.name == "ms::ApplyMomentum"} == {"optimizer"}
    assert {row.phase for row in rows if row.name == "ms::BiasAddGrad"} == {"backward"}
    first = rows[0]
    assert [tensor.name for tensor in first.inputs][:2] == ["input.0", "input.1"]
    assert first.outputs[0].shape == (2, 4)


def test_layers_parameters_and_the_optimizer_are_rows(graph: Path) -> None:
    rows = opened(graph).rows(0)
    layers = [(row.module_path, row.name) for row in rows if row.kind == "module"]
    assert layers == [("fc", "Dense"), ("relu", "ReLU"), ("out", "Dense"), ("", "Net"), ("MSELoss", "MSELoss")]
    parameters = {f"{row.module_path}.{row.name}": row for row in rows if row.kind == "parameter"}
    assert set(parameters) == {"fc.weight", "fc.bias", "out.weight", "out.bias"}
    assert all(row.inputs[0].name == "input.grad" for row in parameters.values())
    optimizer = next(row for row in rows if row.kind == "optimizer")
    assert optimizer.name == "Momentum"
    assert '"learning_rate": [0.1]' in optimizer.arguments


def test_whole_tensors_are_those_of_the_files(graph: Path) -> None:
    dump = opened(graph)
    for row in dump.rows(1):
        arrays = dump.tensors(row)
        assert {name: array.shape for name, array in arrays.items()} == {
            tensor.name: tensor.shape for tensor in (*row.inputs, *row.outputs)
        }


@pytest.mark.slow
def test_a_dump_agrees_with_pytorch_and_another_learning_rate_is_named(graph: Path, tmp_path: Path) -> None:
    run = reference(tmp_path / "torch")
    agrees = compare(run, graph)
    assert agrees.status == "agree", agrees.headline
    assert "no operator has a name in both runs" in agrees.headline
    other = compare(run, unpacked(tmp_path, "graph_lr"))
    assert other.status == "diverge"
    assert other.first_divergence is not None
    assert [str(one) for one in other.first_divergence.arguments] == ["lr 0.1 against 0.5"]
    assert compare(graph, tmp_path / "graph_lr").status == "diverge"


@pytest.mark.slow
def test_another_layer_is_named(graph: Path, tmp_path: Path) -> None:
    found = compare(reference(tmp_path / "torch", slope=0.3), graph)
    assert found.status == "differ"
    assert "Only the reference runs LeakyReLU (first in relu" in found.headline


def test_what_the_order_lists_and_the_dump_lacks_is_said(graph: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    shutil.copytree(graph, part)
    for file in (part / "rank_0" / "Net" / "0" / "0").glob("ReLU.*"):
        file.unlink()
    assert "ran 23 operators and iteration 0 holds 22 of them (first missing: Default/" in opened(part).warnings[0]


def test_pynative_dumps_say_what_they_hold(tmp_path: Path) -> None:
    dump = opened(unpacked(tmp_path, "pynative"))
    assert "the optimizer's operators and parameters only" in dump.warnings[0]
    assert {row.name for row in dump.rows(0) if row.kind == "op"} == {"ms::AssignAdd", "ms::ApplyMomentum"}


def test_a_slot_that_comes_again_begins_the_next_call(graph: Path, tmp_path: Path) -> None:
    twice = tmp_path / "twice"
    shutil.copytree(graph, twice)
    folder = twice / "rank_0" / "Net" / "0" / "0"
    for file in list(folder.glob("ReLU.*")):
        kind, name, task, stream, time, *rest = file.name.split(".")
        shutil.copy(file, folder / ".".join((kind, name, task, stream, str(int(time) + 10_000_000), *rest)))
    calls = [row for row in opened(twice).rows(0) if row.name == "ms::ReLU"]
    assert [row.occurrence for row in calls] == [0, 1]


@pytest.mark.parametrize("damage", ["cut", "text", "objects"])
def test_a_damaged_file_is_a_sentence(graph: Path, tmp_path: Path, damage: str) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(graph, broken)
    file = next((broken / "rank_0" / "Net" / "0" / "0").glob("ReLU.*output.0*"))
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:70])
    elif damage == "text":
        file.write_text("not an array")
    else:
        np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(JumarError, match="ReLU"):
        opened(broken).rows(0)


def test_overflow_is_looked_for_in_a_dump(graph: Path) -> None:
    found = find_overflow(graph)
    assert found.headline.startswith("No overflow is used in 2 steps")


def test_a_graph_file_gives_operators_with_layers_and_lines(tmp_path: Path) -> None:
    with zipfile.ZipFile(ASSETS / "validate.ir.zip") as archive:
        archive.extractall(tmp_path)
    dump = opened(tmp_path / "validate.ir")
    rows = dump.rows(0)
    assert [(row.module_path, row.name, row.source) for row in rows[:3]] == [
        ("fc", "ms::MatMul", "make.py:34"), ("fc", "ms::BiasAdd", "make.py:34"), ("relu", "ms::ReLU", "make.py:34"),
    ]  # fmt: skip
    assert rows[0].inputs[1].shape == (4, 3)
    assert {row.phase for row in rows} == {"forward", "backward", "optimizer"}
    (tmp_path / "empty.ir").write_text("# IR entry: @x\n")
    with pytest.raises(JumarError, match="holds no operator"):
        opened(tmp_path / "empty.ir")
