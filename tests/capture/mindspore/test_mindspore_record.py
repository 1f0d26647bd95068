"""`jumar record`, `run` and `overflow` of MindSpore scripts, with MindSpore itself in an environment of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from jumar.recording import Recording

pytestmark = pytest.mark.slow

NET = """
import sys
import numpy as np
import mindspore as ms
from mindspore import Tensor, nn, ops

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, pad_mode="pad", padding=1, has_bias=True)
        self.bn, self.relu = nn.BatchNorm2d(4), nn.ReLU()
        self.fc, self.norm = nn.Dense(4 * 16, 5), nn.LayerNorm((5,))

    def construct(self, x):
        x = self.relu(self.bn(self.conv(x)))
        y = self.fc(x.reshape(x.shape[0], -1))
        return self.norm(y) + y

ms.set_seed(0)
np.random.seed(0)
net, loss_of = Net(), nn.CrossEntropyLoss()
data = [(np.random.randn(3, 2, 4, 4).astype(np.float32), np.array([0, 1, 2], np.int32)) for _ in range(3)]
"""
CELL = """
optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9, weight_decay=0.01)
train = nn.TrainOneStepCell(nn.WithLossCell(net, loss_of), optimizer).set_train()
for x, y in data:
    print(train(Tensor(x), Tensor(y)).asnumpy().tobytes().hex())
"""
MODEL = """
optimizer = nn.Adam(net.trainable_params(), 0.01)
source = ms.dataset.GeneratorDataset(data, ["x", "y"], shuffle=False)
ms.train.Model(net, loss_of, optimizer).train(1, source, dataset_sink_mode=False)
"""
FUNCTION = """
from mindspore.experimental import optim
optimizer = optim.SGD(net.trainable_params(), lr=0.1)
net.set_train()
gradients = ms.value_and_grad(lambda x, y: loss_of(net(x), y), None, optimizer.parameters)
for x, y in data:
    loss, found = gradients(Tensor(x), Tensor(y))
    optimizer(found)
    print(loss.asnumpy().tobytes().hex())
"""
OPERATION = """
optimizer = nn.SGD(net.trainable_params(), 0.1)
class Both(nn.Cell):
    def __init__(self):
        super().__init__(auto_prefix=False)
        self.net, self.loss_of = net, loss_of
    def construct(self, x, y):
        return self.loss_of(self.net(x), y)
both, operation = Both().set_train(), ops.GradOperation(get_by_list=True)
for x, y in data:
    optimizer(operation(both, optimizer.parameters)(Tensor(x), Tensor(y)))
"""
INFER = """
net.set_train(False)
for x, _ in data:
    print(net(Tensor(x)).asnumpy().tobytes().hex())
"""
SCALED = """
ms.set_context(mode=ms.GRAPH_MODE, device_target="Ascend", device_id=0)
net.to_float(ms.float16)
optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
scale = nn.DynamicLossScaleUpdateCell(loss_scale_value=2.0**30, scale_factor=2, scale_window=1000)
train = nn.TrainOneStepWithLossScaleCell(nn.WithLossCell(net, loss_of), optimizer, scale_sense=scale).set_train()
for x, y in data:
    train(Tensor(x), Tensor(y))
"""
BY_HAND = """
optimizer = nn.SGD(net.trainable_params(), 0.1)
scaler = ms.amp.DynamicLossScaler(2.0**10, 2, 1000)
net.set_train()
def forward(x, y):
    loss = loss_of(net(x), y)
    return scaler.scale(loss), loss
gradients = ms.value_and_grad(forward, None, optimizer.parameters, has_aux=True)
for step, (x, y) in enumerate(data):
    (_, loss), found = gradients(Tensor(x * (np.inf if step == 1 else 1)), Tensor(y))
    is_finite = ms.amp.all_finite(found)
    if is_finite:
        optimizer(scaler.unscale(found))
    scaler.adjust(is_finite)
"""


def jumar(mindspore: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(mindspore), "-m", "jumar", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def recorded(mindspore: Path, folder: Path, body: str, *options: str) -> tuple[Recording, str]:
    (folder / "train.py").write_text(NET + body)
    done = jumar(mindspore, folder, "record", "-o", "out", "--force", "--device", "cpu", *options, "train.py")
    assert "Traceback" not in done.stderr, done.stderr
    return Recording.open(folder / "out"), done.stdout


@pytest.mark.parametrize(
    ("body", "optimizer"), [(CELL, "Momentum"), (MODEL, "Adam"), (FUNCTION, "SGD"), (OPERATION, "SGD")]
)
def test_each_form_of_training_gives_steps(mindspore: Path, tmp_path: Path, body: str, optimizer: str) -> None:
    recording, _ = recorded(mindspore, tmp_path, body)
    assert recording.steps() == [0, 1, 2]
    assert len(recording.losses()) == 3
    rows = recording.rows(1)
    modules = [row.module_path for row in rows if row.kind == "module" and row.phase == "forward"]
    assert modules == ["conv", "bn", "relu", "fc", "norm", "", "CrossEntropyLoss"]
    assert {"conv", "fc", "norm", ""} <= {
        row.module_path for row in rows if (row.kind, row.phase) == ("module", "backward")
    }
    assert {"ms::Conv2D", "ms::MatMul", "ms::LayerNorm"} <= {row.name for row in rows if row.kind == "op"}
    parameters = {f"{row.module_path}.{row.name}" for row in rows if row.kind == "parameter"}
    assert {"conv.weight", "bn.gamma", "bn.beta", "fc.bias", "norm.gamma"} <= parameters
    assert all(row.inputs and row.inputs[0].l2 is not None for row in rows if row.kind == "parameter")
    assert [row.name for row in rows if row.kind == "optimizer"] == [optimizer]
    assert next(row for row in rows if row.kind == "module").source.startswith("train.py:")
    assert recording.info.framework == "mindspore"
    assert recording.info.layers["norm"]["epsilon"] == 1e-7
    assert recording.ends[0].status == "finished"


@pytest.mark.parametrize("body", [CELL, FUNCTION, INFER])
def test_recording_changes_no_bit(mindspore: Path, tmp_path: Path, body: str) -> None:
    (tmp_path / "plain.py").write_text(NET + body)
    plain = subprocess.run([str(mindspore), "plain.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    _, out = recorded(mindspore, tmp_path, body, "--values", "tensors")
    assert out.split() == plain.stdout.split()


def test_without_an_optimizer_a_call_is_a_step(mindspore: Path, tmp_path: Path) -> None:
    recording, _ = recorded(mindspore, tmp_path, INFER)
    assert recording.steps() == [0, 1, 2]
    assert not recording.losses()


def test_weight_decay_is_that_of_each_parameter(mindspore: Path, tmp_path: Path) -> None:
    recording, _ = recorded(mindspore, tmp_path, CELL)
    optimizer = next(row for row in recording.rows(0) if row.kind == "optimizer")
    assert '"weight_decay": [0.01, 0.0]' in optimizer.arguments  # MindSpore leaves gamma and beta out


@pytest.mark.parametrize("values", ["none", "hash", "stats", "sketch", "tensors"])
def test_each_level_of_values(mindspore: Path, tmp_path: Path, values: str) -> None:
    recording, _ = recorded(mindspore, tmp_path, CELL, "--values", values, "--steps", "0:1")
    row = next(row for row in recording.rows(0) if row.name == "Dense")
    tensor = row.outputs[0]
    assert (tensor.l2 is not None) == (values in {"stats", "sketch", "tensors"})
    assert bool(tensor.hash) == (values == "hash")
    assert (tensor.sketch is not None) == (values == "sketch")
    assert recording.has_tensors() == (values == "tensors")
    if values == "tensors":
        assert recording.tensors(row)["output.0"].shape == (3, 5)
    assert recording.ends[0].status == "stopped"


def test_levels_steps_and_chosen_tensors(mindspore: Path, tmp_path: Path) -> None:
    recording, _ = recorded(
        mindspore, tmp_path, CELL, "--level", "module", "--steps", "1:2", "--tensors-of", "*/fc/Dense/*"
    )
    assert recording.steps() == [1]
    rows = recording.rows(1)
    assert not [row for row in rows if row.kind == "op"]
    dense = next(row for row in rows if row.module_path == "fc" and row.phase == "forward" and row.kind == "module")
    assert set(recording.tensors(dense)) == {"input.0", "output.0"}


def test_a_budget_leaves_out_and_says_so(mindspore: Path, tmp_path: Path) -> None:
    body = CELL.replace("for x, y in data:", "for x, y in data * 20:")
    recording, _ = recorded(mindspore, tmp_path, body, "--budget", "200kB")
    size = sum(file.stat().st_size for file in (tmp_path / "out").rglob("*") if file.is_file())
    assert size <= 230_000  # a step is judged when it is written
    assert any("the budget left out" in sentence for sentence in recording.ends[0].not_covered)


def test_a_killed_run_keeps_its_steps(mindspore: Path, tmp_path: Path) -> None:
    body = CELL.replace("for x, y in data:", "for x, y in data * 10_000:")
    (tmp_path / "train.py").write_text(NET + body)
    command = [str(mindspore), "-m", "jumar", "record", "-o", "out", "--device", "cpu", "train.py"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list((tmp_path / "out" / "steps").glob("*.parquet"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    recording = Recording.open(tmp_path / "out")
    assert len(recording.steps()) >= 3
    assert recording.rows(recording.steps()[-1])
    assert any("killed after step" in warning for warning in recording.warnings)


def test_a_script_that_raises_keeps_its_own_traceback(mindspore: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(NET + CELL + "\nraise ValueError('the end')\n")
    done = jumar(mindspore, tmp_path, "record", "-o", "out", "--device", "cpu", "train.py")
    assert done.returncode == 2
    assert "ValueError: the end" in done.stderr
    assert "capture/frameworks" not in done.stderr
    assert Recording.open(tmp_path / "out").ends[0].status == "raised"


def test_a_fault_of_the_observer_does_not_reach_the_program(mindspore: Path, tmp_path: Path) -> None:
    body = (
        """
import jumar.capture.frameworks.notebook as own
def broken(array):
    raise ZeroDivisionError("planted")
own.statistics = broken
"""
        + CELL
    )
    recording, out = recorded(mindspore, tmp_path, body)
    assert len(out.split()) == 3
    assert any("the observer failed: ZeroDivisionError: planted" in one for one in recording.ends[0].not_covered)


def test_graph_mode_runs_as_pynative_and_ascend_is_rounded(mindspore: Path, tmp_path: Path) -> None:
    context = "\nms.set_context(mode=ms.GRAPH_MODE, device_target='Ascend', device_id=3)\n"
    (tmp_path / "train.py").write_text(NET + context + CELL)
    done = jumar(mindspore, tmp_path, "record", "-o", "out", "train.py")
    assert "without effect here: device_id=3" in done.stderr
    recording = Recording.open(tmp_path / "out")
    assert recording.info.device == "npu (emulated)"
    assert any(sentence.startswith("graph mode:") for sentence in recording.ends[0].not_covered)
    exact = jumar(mindspore, tmp_path, "record", "-o", "exact", "--numerics", "exact", "train.py")
    assert exact.returncode == 0, exact.stderr
    convolution = [
        next(row for row in Recording.open(tmp_path / name).rows(0) if row.name == "ms::Conv2D").outputs[0].l2
        for name in ("out", "exact")
    ]
    assert convolution[0] != convolution[1]
    assert convolution[0] == pytest.approx(convolution[1], rel=1e-3)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "ms.set_context(devcie_target='Ascend')",
            "set_context has no option 'devcie_target'. Did you mean device_target?",
        ),
        ("ms.set_context(device_target='Ascent')", "got 'Ascent'. Did you mean Ascend?"),
        ("ms.set_auto_parallel_context(all_reduce_fusion=[1])", "Did you mean all_reduce_fusion_config?"),
        ("ms.set_auto_parallel_context(all_reduce_fusion_config=[5, 2])", "must be growing numbers of parameters"),
        ("ms.communication.init('hcll')", "got 'hcll'. Did you mean hccl?"),
    ],
)
def test_wrong_options_are_refused_in_a_sentence(mindspore: Path, tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "train.py").write_text(f"import mindspore as ms\nimport mindspore.communication\n{line}\n")
    done = jumar(mindspore, tmp_path, "run", "train.py")
    assert done.returncode != 0
    assert said in done.stderr


def test_a_script_for_many_cards_runs_as_one(mindspore: Path, tmp_path: Path) -> None:
    body = """
from mindspore.communication import get_group_size, get_rank, init
ms.set_context(mode=ms.GRAPH_MODE, device_target="Ascend", device_id=0)
ms.set_auto_parallel_context(device_num=8, parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True)
ms.set_auto_parallel_context(all_reduce_fusion_config=[85, 160])
init()
assert (get_rank(), get_group_size()) == (0, 1)
assert ms.get_context("device_target") == "Ascend"
"""
    (tmp_path / "train.py").write_text(NET + body + CELL)
    done = jumar(mindspore, tmp_path, "run", "--steps", "2", "train.py")
    assert done.returncode == 0, done.stderr
    assert "init()" in done.stderr
    assert "ends at 160, and the optimizer has 8 parameters, counted from 0: end it at 7" in done.stderr
    assert "collectives: the program ran as one rank of one" in done.stderr
    assert "stopped after 2 steps" in done.stderr


def test_loss_scales_and_skipped_updates_are_recorded(mindspore: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(NET + SCALED)
    done = jumar(mindspore, tmp_path, "record", "-o", "out", "train.py")
    assert done.returncode == 0, done.stderr
    recording = Recording.open(tmp_path / "out")
    infos = [recording.step_info(step) for step in recording.steps()]
    assert [info.loss_scale for info in infos] == [2.0**30, 2.0**29, 2.0**28]
    assert [info.skipped for info in infos] == [True, True, True]
    found = jumar(mindspore, tmp_path, "overflow", "out")
    assert "3 updates of 3 steps skipped" in found.stdout


def test_a_scaler_by_hand_skips_one_step(mindspore: Path, tmp_path: Path) -> None:
    recording, _ = recorded(mindspore, tmp_path, BY_HAND)
    infos = [recording.step_info(step) for step in recording.steps()]
    assert [info.skipped for info in infos] == [False, True, False]
    assert [info.loss_scale for info in infos] == [1024.0, 1024.0, 512.0]


def test_overflow_names_the_first_operator(mindspore: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(NET.replace("self.norm(y) + y", "ops.sqrt(self.norm(y)) + y") + CELL)
    found = jumar(mindspore, tmp_path, "overflow", "--device", "cpu", "train.py")
    assert found.returncode == 1
    assert "it is used, is ms::Sqrt outside any module" in found.stdout.replace("\n", " ")
    assert "sqrt of a negative number" in found.stdout


def test_advice_names_what_is_off_and_accuses_no_operator(mindspore: Path, tmp_path: Path) -> None:
    recorded(mindspore, tmp_path, MODEL)
    advice = jumar(mindspore, tmp_path, "advise", "out", "--json").stdout
    assert "dataset_sink_mode=False" in advice
    assert "The program runs in PyNative mode" in advice
    assert "has no kernel" not in advice
    assert "compile cache" not in advice, "nothing is compiled in PyNative mode"


@pytest.mark.parametrize(("option", "is_told"), [("", True), ("ms.set_context(enable_compile_cache=True)", False)])
def test_a_graph_without_a_compile_cache_is_advised(
    mindspore: Path, tmp_path: Path, option: str, is_told: bool
) -> None:
    recorded(mindspore, tmp_path, f"ms.set_context(mode=ms.GRAPH_MODE)\n{option}\n{MODEL}")
    advice = jumar(mindspore, tmp_path, "advise", "out", "--json").stdout
    assert ("no compile cache is on" in advice) == is_told


def test_a_pytorch_script_is_told_what_it_needs(mindspore: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    done = jumar(mindspore, tmp_path, "run", "train.py")
    assert done.returncode == 2
    assert "this needs PyTorch, which is not installed here" in done.stderr
    assert "Traceback" not in done.stderr
