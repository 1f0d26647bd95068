"""The ImageNet trainer converted by Jumar trains as the one that was moved by hand after the migration guide."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from example_runs import EXAMPLES, TIMEOUT_S, Run, plan

from jumar.convert import ConvertOptions, convert_files
from jumar.convert.engine.launch import FILE_NAME, script
from jumar.convert.model.options import Distributed

IMAGENET = EXAMPLES / "imagenet"
MODULES = ("resnet.py", "synthetic.py")
MANUAL_STEPS = frozenset({"JM150", "JM151", "JM158"})
"""The guide's steps by hand as rules: targets in int32, no smaller last batch, the device set at the start."""
SHARED = ["--image-size", "32", "--epochs", "2"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Convert a script of the example with the guide's manual steps, and write it with its launch script."""
    made: dict[str, Path] = {}

    def convert(name: str) -> Path:
        if name not in made:
            options = ConvertOptions(enable=MANUAL_STEPS, distributed=Distributed(main=name))
            out = tmp_path_factory.mktemp("by hand") / "imagenet"
            conversion = convert_files(IMAGENET, [IMAGENET / name, *(IMAGENET / module for module in MODULES)], options)
            conversion.write(out, reports={FILE_NAME: script(name, options)})
            made[name] = out / name
        return made[name]

    return convert


def run(command: list[str], folder: Path, *options: str) -> Run:
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "PYTHON": sys.executable}
    done = subprocess.run(
        [*command, *SHARED, *options], cwd=folder, env=variables | plan("npu").to_environment(), text=True,
        capture_output=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return Run(folder, done.stdout)


def state(folder: Path) -> dict[str, torch.Tensor]:
    """The weights and buffers of a checkpoint by the model's own names."""
    checkpoint = torch.load(folder / "checkpoints" / "checkpoint.pth.tar", map_location="cpu")
    return {name.removeprefix("module."): value for name, value in checkpoint["state_dict"].items()}


def momentum(folder: Path) -> list[torch.Tensor]:
    checkpoint = torch.load(folder / "checkpoints" / "checkpoint.pth.tar", map_location="cpu")
    return [item["momentum_buffer"] for item in checkpoint["optimizer"]["state"].values()]


def assert_same_training(first: Path, second: Path) -> None:
    """Weights, buffers and momenta must be equal bit for bit."""
    ours, theirs = state(first), state(second)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    assert all(torch.equal(a, b) for a, b in zip(momentum(first), momentum(second), strict=True))
    assert len(momentum(first)) > 10


def accuracies(output: str) -> set[str]:
    return {line for line in output.splitlines() if line.startswith(" * Acc@1")}


@pytest.fixture(scope="module")
def by_hand_on_two(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The trainer moved by hand to several NPUs: three steps an epoch of 4 samples on each of two devices."""
    script_by_hand = [sys.executable, str(IMAGENET / "by_hand_several_npus.py")]
    options = ["--multiprocessing-distributed", "--steps-per-epoch", "3", "--val-steps", "2", "-b", "8"]
    return run(script_by_hand, tmp_path_factory.mktemp("hand"), *options)


def test_on_one_device_losses_and_weights_equal_those_of_the_script_moved_by_hand(converted, tmp_path):
    options = ["--steps-per-epoch", "3", "--val-steps", "2", "-b", "4"]
    runs = []
    for name, where in (("by hand", IMAGENET / "by_hand_one_npu.py"), ("converted", converted("train.py"))):
        folder = tmp_path / name
        folder.mkdir()
        runs.append(run([sys.executable, str(where)], folder, *options))
    assert len(runs[0].losses) == 2 * (3 + 2)
    assert runs[0].losses == runs[1].losses
    assert_same_training(runs[0].folder, runs[1].folder)


def test_the_script_with_processes_of_its_own_trains_on_two_devices_as_the_one_moved_by_hand(
    converted, by_hand_on_two, tmp_path
):
    options = ["--multiprocessing-distributed", "--steps-per-epoch", "3", "--val-steps", "2", "-b", "8"]
    ours = run([sys.executable, str(converted("train.py"))], tmp_path, *options)
    assert_same_training(by_hand_on_two.folder, ours.folder)


def test_the_script_for_one_device_trains_on_two_as_the_one_moved_by_hand(converted, by_hand_on_two, tmp_path):
    launcher = converted("train_one_gpu.py").parent / FILE_NAME
    ours = run(["bash", str(launcher), "-n", "2"], tmp_path, *["--steps-per-epoch", "6", "--val-steps", "4", "-b", "4"])
    assert_same_training(by_hand_on_two.folder, ours.folder)
    assert accuracies(by_hand_on_two.output) == accuracies(ours.output)
    assert ours.output.count(" * Acc@1") == 2
    # rank 0 reports alone: three training steps and four validation steps in each of two epochs
    assert len(ours.losses) == 2 * (3 + 4)


def test_a_checkpoint_of_two_devices_goes_on_in_the_original_script_on_one(converted, tmp_path):
    launcher = converted("train_one_gpu.py").parent / FILE_NAME
    options = ["--steps-per-epoch", "2", "--val-steps", "1", "-b", "2"]
    run(["bash", str(launcher), "-n", "2"], tmp_path, *options)
    checkpoint = tmp_path / "checkpoints" / "checkpoint.pth.tar"
    assert not any(name.startswith("module.") for name in torch.load(checkpoint, map_location="cpu")["state_dict"])
    for name in ("train_one_gpu.py", *MODULES):
        shutil.copy(IMAGENET / name, tmp_path)
    command = [sys.executable, str(tmp_path / "train_one_gpu.py"), "--resume", str(checkpoint), "--epochs", "3"]
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [*command, "--image-size", "32", *options], cwd=tmp_path, text=True, capture_output=True, timeout=TIMEOUT_S,
        env=variables | plan("cuda-stand-in").to_environment(), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert "(epoch 2)" in done.stdout
    assert "Epoch: [2][2/2]" in done.stdout
