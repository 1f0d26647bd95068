"""Runs the shipped examples on the CPU, on the CUDA stand-in and on the emulated NPU.

A device stays in a process once it is up, so there is one worker process for each kind of device. It runs
one script after the other, as `python train.py` would.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from jumar.device import DevicePlan, activate

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT_S = 200

_OPTIONS = {
    "imagenet": "--steps-per-epoch 3 --val-steps 1 --image-size 32 --batch-size 4",
    "shufflenet": "--total-iters 3 --image-size 32 --batch-size 8 --num-images 80 --model-size x0.5",
    "gpt": "--max_iters 3 --eval_interval 3 --eval_iters 1 --n_layer 2 --n_embd 32 --block_size 32 --batch_size 4 "
    "--gradient_accumulation_steps 2 --dtype float32",
}
SMALL = {example: options.split() for example, options in _OPTIONS.items()}
"""Options that make three training steps of each example quick."""

CHECKPOINTS = {
    "imagenet": "checkpoints/checkpoint.pth.tar",
    "shufflenet": "models/checkpoint-000003.pth.tar",
    "gpt": "out/ckpt.pt",
}

_LOSS = re.compile(r"\bloss(?: =)? (\d+\.\d+|nan)", re.IGNORECASE)


@dataclass(frozen=True)
class Run:
    """What a finished script printed, and the folder it worked in."""

    folder: Path
    output: str

    @property
    def losses(self) -> list[str]:
        """Losses as printed, of training and validation."""
        return _LOSS.findall(self.output)


def plan(kind: str) -> DevicePlan:
    return DevicePlan(kind=kind, real="never", num_devices=2, numerics="exact")


def start_worker(kind: str) -> None:
    """Prepare a worker process for the device kind `cpu`, `cuda-stand-in` or `npu` (emulated)."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    activate(plan(kind))


def run_script(script: Path, options: Sequence[str], folder: Path) -> Run:
    """Run a script as the main program in this process, with `folder` as its working folder."""
    output = io.StringIO()
    with _as_main_program(script, options, folder), contextlib.redirect_stdout(output):
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as error:
            if error.code:
                raise RuntimeError(f"exit code {error.code}\n{output.getvalue()}") from error
    return Run(folder, output.getvalue())


@contextlib.contextmanager
def _as_main_program(script: Path, options: Sequence[str], folder: Path) -> Iterator[None]:
    arguments, path, old_folder = sys.argv, list(sys.path), Path.cwd()
    sys.argv = [str(script), *options]
    sys.path.insert(0, str(script.parent))
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(old_folder)
        sys.argv, sys.path[:] = arguments, path
        beside = str(script.parent)
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(beside):
                del sys.modules[name]


def launch(
    script: Path, options: Sequence[str], folder: Path, kind: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start a script in a process of its own, whose children inherit the device."""
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", **(environment or {})}
    return subprocess.Popen(
        [sys.executable, str(script), *options],
        cwd=folder,
        env=variables | plan(kind).to_environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process: subprocess.Popen[str], folder: Path) -> Run:
    """Wait for the process; one that fails fails the test with its own traceback."""
    try:
        output, errors = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert process.returncode == 0, f"exit code {process.returncode}\n{output[-2000:]}\n{errors[-4000:]}"
    return Run(folder, output)


def checkpoint_tensors(run: Run, example: str) -> dict[str, torch.Tensor]:
    """All tensors of the example's checkpoint, on the CPU, by their path in it."""
    found: dict[str, torch.Tensor] = {}

    def walk(value: Any, path: str) -> None:
        if isinstance(value, torch.Tensor):
            found[path] = value
        elif isinstance(value, dict):
            for name, item in value.items():
                walk(item, f"{path}.{name}")
        elif isinstance(value, (list, tuple)):
            for number, item in enumerate(value):
                walk(item, f"{path}[{number}]")

    walk(torch.load(run.folder / CHECKPOINTS[example], map_location="cpu"), "")
    return found


def assert_same_checkpoints(first: Run, second: Run, example: str) -> None:
    """Weights, buffers and optimizer states must be equal bit for bit."""
    ours, theirs = checkpoint_tensors(first, example), checkpoint_tensors(second, example)
    assert ours.keys() == theirs.keys()
    assert len(ours) > 10
    different = [name for name in ours if not torch.equal(ours[name], theirs[name])]
    assert different == []
