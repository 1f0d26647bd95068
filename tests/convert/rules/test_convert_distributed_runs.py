"""Converted scripts train with two ranks on the emulated NPU as they do in one process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from distributed_runs import Project, emulated, launcher, project

pytestmark = pytest.mark.slow

MODELS = {"cifar_like.py": "net", "gan.py": "netG"}


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Project]:
    made: dict[str, Project] = {}

    def make(main: str) -> Project:
        if main not in made:
            folder = tmp_path_factory.mktemp("ranks") / "a folder"
            made[main] = project(folder, main, MODELS.get(main, "model"))
        return made[main]

    return make


def load(path: Path) -> Any:
    return torch.load(path, map_location="cpu", weights_only=False)


def assert_same_weights(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> None:
    assert one.keys() == two.keys()
    assert not any(name.startswith("module.") for name in two)
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=1e-6, atol=1e-7)


def losses(output: str, pattern: str) -> list[float]:
    return [float(text) for text in re.findall(pattern, output)]


def test_functions_with_everything_as_arguments(projects):
    made = projects("mnist_like.py")
    one = made.run("--batch-size", "8", "--save-model", where="one")
    two = made.run("--batch-size", "4", "--save-model", ranks=2, where="two")
    assert_same_weights(load(made.folder / "one/mnist.pt"), load(made.folder / "two/mnist.pt"))
    # every epoch's loss is the mean over all samples, every metric over each validation sample once
    assert losses(two, r"train (\S+)") == pytest.approx(losses(one, r"train (\S+)"), abs=2e-6)
    assert re.findall(r"Accuracy: \S+", two) == re.findall(r"Accuracy: \S+", one)
    assert losses(two, r"Average loss: ([\d.]+)") == pytest.approx(losses(one, r"Average loss: ([\d.]+)"), abs=2e-6)
    assert "/11 " in two
    # rank 0 alone prints
    assert len(re.findall("Test set", two)) == len(re.findall("Test set", one)) == 2


def test_the_agnostic_script_trains_with_ranks_on_the_npu_and_on_a_machine_without_one(tmp_path):
    made = project(tmp_path / "agnostic", "mnist_like.py", "model", target="agnostic")
    ours = made.run("--batch-size", "4", "--save-model", ranks=2, where="npu")
    theirs = made.run("--batch-size", "4", "--save-model", ranks=2, where="cpu", JUMAR_DEVICE_PLAN="")
    assert losses(ours, r"train (\S+)") == pytest.approx(losses(theirs, r"train (\S+)"), abs=2e-6)
    assert_same_weights(load(made.folder / "npu/mnist.pt"), load(made.folder / "cpu/mnist.pt"))


def test_a_decision_of_one_rank_to_stop_stops_all(projects):
    output = projects("mnist_like.py").run("--batch-size", "4", "--dry-run", "--epochs", "1", ranks=2, where="dry")
    assert len(re.findall("Train Epoch", output)) == 1


def test_code_at_the_top_level_with_a_download_and_a_resume(projects):
    made = projects("cifar_like.py")
    one = made.run("--batch-size", "8", where="one")
    two = made.run("--batch-size", "4", ranks=2, where="two")
    ours, theirs = (load(made.folder / where / "checkpoint/ckpt.pth") for where in ("one", "two"))
    assert_same_weights(ours["net"], theirs["net"])
    tested = re.compile(r"test \d+ correct (\d+) of (\d+)")
    assert tested.findall(one) == tested.findall(two)
    assert {total for _, total in tested.findall(two)} == {"11"}
    # a checkpoint of two ranks goes on with two ranks, and alone
    assert "Resuming" in made.run("--batch-size", "4", "--resume", ranks=2, where="two")
    assert "Resuming" in made.run("--batch-size", "8", "--resume", where="two")


def test_a_class_that_trains_with_a_plateau_scheduler_and_a_best_model(projects):
    made = projects("trainer_class.py")
    one = made.run("8", where="one")
    two = made.run("4", ranks=2, where="two")
    ours, theirs = (load(made.folder / where / "best.pt") for where in ("one", "two"))
    assert_same_weights(ours["model"], theirs["model"])
    for pattern in (r"epoch (\d+)", r"train (\S+)", r"val (\S+)"):
        assert losses(two, pattern) == pytest.approx(losses(one, pattern), abs=2e-6)
    assert len(losses(one, r"epoch (\d+)")) == len(losses(one, r"val (\S+)")) > 0
    assert two.count("evaluated 11") == 2


def test_two_models_that_learn_from_each_other_started_by_jumar_run(projects):
    made = projects("gan.py")
    work = made.folder / "two"
    work.mkdir()
    torchrun = [str(Path(sys.executable).with_name("torchrun")), "--standalone", "--nproc-per-node", "2"]
    jumar = [sys.executable, "-c", "from jumar.cli.main import run; run()", "run"]
    command = [*jumar, *torchrun, str(made.folder / made.main), "4"]
    subprocess.run(command, cwd=work, check=True, timeout=200)
    for name in ("netG", "netD"):
        ours = load(made.folder / f"two/out/{name}.pth")
        assert not any(key.startswith("module.") for key in ours)
        assert all(torch.isfinite(value).all() for value in ours.values())
    assert sorted(path.name for path in (made.folder / "two/out").iterdir()) == [
        "netD.pth", "netG.pth", "sample_0.pt", "sample_1.pt",
    ]  # fmt: skip


def test_data_parallel_becomes_one_process_a_device_with_the_keys_it_had(projects):
    made = projects("data_parallel.py")
    made.run(ranks=2, where="two")
    wrapped, plain = load(made.folder / "two/model.pt"), load(made.folder / "two/plain.pt")
    assert list(wrapped) == [f"module.{name}" for name in plain]


_PROBE = """
import json, torch, torch.distributed as dist
def tell(net, where):
    mine = torch.cat([value.flatten().cpu() for value in net.state_dict().values()])
    all_of_them = [None, None]
    dist.all_gather_object(all_of_them, (mine.tolist(), float(torch.rand(()))))
    if dist.get_rank() == 0:
        json.dump(all_of_them, open(where, 'w'))
"""


def test_ranks_end_with_the_same_weights_and_draw_different_random_numbers(projects, tmp_path):
    made = projects("cifar_like.py")
    text = (made.folder / made.main).read_text()
    assert text.rstrip().endswith("stop_ranks()")
    head = text.rstrip().removesuffix("stop_ranks()")
    (made.folder / "probe.py").write_text(_PROBE)
    where = tmp_path / "probe.json"
    probed = Project(made.folder, "probed.py", ())
    (made.folder / "probed.py").write_text(f"{head}from probe import tell; tell(net, {str(where)!r}); stop_ranks()\n")
    script = (made.folder / "run_distributed_npu.sh").read_text()
    (made.folder / "run_distributed_npu.sh").write_text(script.replace("cifar_like.py", "probed.py"))
    try:
        probed.run("--batch-size", "4", ranks=2, where="probed")
    finally:
        (made.folder / "run_distributed_npu.sh").write_text(script)
    (first, one), (second, two) = json.loads(where.read_text())
    assert first == second
    assert one != two


def test_a_rank_that_fails_ends_the_launch_with_its_failure(projects):
    made = projects("mnist_like.py")
    work = made.folder / "fails"
    work.mkdir()
    done = subprocess.run(
        [*launcher(made.folder, 2), "--no-such-option"], cwd=work, env=emulated(), capture_output=True, text=True,
        timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "unrecognized arguments" in done.stderr
