"""The main job on a small script: the folder it leaves, its verdict, and its errors."""

from __future__ import annotations

import json
import subprocess
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from jumar.cli.main import main
from jumar.convert import Conversion, ConvertOptions, convert_files
from jumar.convert.model.outcome import Failure

SCRIPT = """\
    import argparse
    import torch
    from torch import nn
    from model import Net

    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--fail-at", type=int, default=-1)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda:0")  # the only GPU
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(args.steps):
        x = torch.randn(8, 16).to(device, non_blocking=True)
        y = torch.randint(0, 4, (8,)).cuda(non_blocking=True)
        if step == args.fail_at:
            raise RuntimeError("the loader broke")
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item(), torch.cuda.memory_allocated() >= 0)
    torch.save(model.state_dict(), "checkpoint.pt")
"""
MODEL = """\
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(16, 32)
            self.norm = nn.LayerNorm(32)
            self.fc2 = nn.Linear(32, 4)

        def forward(self, x):
            return self.fc2(self.norm(self.fc1(x)).relu())
"""
FAULT = """\
    planted = []


    def plant():
        from jumar.npu import override

        def another_epsilon(original, x, shape, weight, bias, eps):
            return original(x, shape, weight, bias, 1e-2)

        planted.append(override("aten::native_layer_norm", another_epsilon))
        planted[0].__enter__()
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(textwrap.dedent(SCRIPT))
    (folder / "model.py").write_text(textwrap.dedent(MODEL))
    (folder / "checkpoint.pt").write_text("the user's own")
    monkeypatch.chdir(folder)
    return folder


def snapshot(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and "jumar-port" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def document(out: Path = Path("jumar-port")) -> dict:
    return json.loads((out / "findings.json").read_text())


def test_a_healthy_script_gets_a_page_a_patch_and_exit_code_0(project: Path) -> None:
    before = snapshot(project)
    assert main(["port", "train.py"]) == 0
    assert snapshot(project) == before
    page = document()["page"]
    assert page["verdict"]["status"] == "fine", page["verdict"]
    assert (project / "jumar-port" / "index.html").read_text().lstrip().lower().startswith("<!doctype html>")
    converted = next((project / "jumar-port" / "converted").rglob("train.py")).read_text()
    assert ".to(device, non_blocking=True)" in converted
    assert 'torch.device("npu:0")  # the only GPU' in converted


@pytest.mark.slow
def test_git_applies_the_patch(project: Path) -> None:
    assert main(["port", "train.py"]) == 0
    for command in (["git", "init", "-q"], ["git", "apply", "jumar-port/changes.patch"]):
        subprocess.run(command, check=True)
    assert "cuda" not in (project / "train.py").read_text()


@pytest.mark.slow
def test_both_runs_have_the_same_losses(project: Path) -> None:
    assert main(["port", "--steps", "2", "train.py"]) == 0
    chart = next(
        block for section in document()["page"]["sections"] for block in section["blocks"] if "series" in block
    )
    reference, target = chart["series"]
    assert len(reference["y"]) == 2
    assert reference["y"] == target["y"]


def test_a_fault_planted_on_the_npu_is_named_as_the_first_divergence(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "planted_fault.py").write_text(textwrap.dedent(FAULT))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("JUMAR_EMULATOR_PLUGIN", "planted_fault:plant")
    assert main(["port", "train.py"]) == 1
    first = next(finding for finding in document()["findings"] if finding["code"].startswith("JM3"))
    assert first["where"]["operator"] == "aten::native_layer_norm"
    assert first["where"]["module_path"] == "norm"
    assert first["where"]["step"] == 0


@pytest.mark.slow
def test_a_script_that_seeds_nothing_draws_the_same_numbers_on_both_sides(project: Path) -> None:
    seeded = (project / "train.py").read_text()
    unseeded = seeded.replace(
        "torch.manual_seed(0)", "import random, numpy\nprint(random.random(), numpy.random.rand(), {'a', 'b'})"
    )
    assert unseeded != seeded
    (project / "train.py").write_text(unseeded)
    assert main(["port", "train.py"]) == 0
    logs = [(project / "jumar-port" / "logs" / f"{side}.log").read_text() for side in ("reference", "npu")]
    drawn = [next(line for line in log.splitlines() if "{'" in line) for log in logs]  # libraries may warn before it
    assert drawn[0] == drawn[1]
    decisive = [found for found in document()["findings"] if found["severity"] in ("warning", "error")]
    assert "JM304" not in {finding["code"] for finding in decisive}  # versions differ, and are told as information


def test_a_script_that_raises_shows_its_own_traceback_and_what_was_finished(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["port", "train.py", "--", "--fail-at", "1"]) == 2
    output = capfd.readouterr()
    assert "RuntimeError: the loader broke" in output.err
    assert "jumar/" not in output.err
    assert "train.py stopped on the reference device after 1 step" in output.out
    assert (project / "jumar-port" / "changes.patch").exists()


def test_a_script_that_ends_itself_says_so(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["port", "train.py", "--", "--nonsense"]) == 2
    output = capfd.readouterr()
    assert "unrecognized arguments: --nonsense" in output.err
    assert "after 0 steps" in output.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["missing.py"], "the script missing.py does not exist"),
        (["."], "is not a file"),
        (["broken.py"], "broken.py:1 does not parse as Python"),
        (["--soc", "Ascend911", "train.py"], "Ascend911"),
        (["--steps", "0", "train.py"], '"--steps 0" must be at least 1'),
        (["-o", "taken", "train.py"], "the output folder taken is not empty"),
        (["-o", "taken", "--force", "train.py"], "holds files that Jumar did not make"),
        (["-o", "/proc/nowhere", "train.py"], "cannot be written"),
        (["-o", "model.py", "train.py"], "is a file"),
        (["--torch-version", "1.0", "train.py"], "1.0"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(
    arguments: list[str], sentence: str, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (project / "broken.py").write_text("def (:\n")
    (project / "taken").mkdir()
    (project / "taken" / "mine.txt").write_text("mine")
    assert main(["port", *arguments]) == 2
    error = capfd.readouterr().err
    assert sentence in error
    assert len(error.strip().splitlines()) == 1
    assert (project / "taken" / "mine.txt").read_text() == "mine"


@pytest.mark.slow
def test_a_script_that_cannot_be_converted_is_no_wrong_use_of_an_assessment(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def unconverted(root: Path, files: Sequence[Path], options: ConvertOptions) -> Conversion:
        done = convert_files(root, files, options)
        lost = [Failure(path=file.path, before=file.before, error="no rule took it") for file in done.files]
        return replace(done, files=tuple(lost))

    monkeypatch.setattr("jumar.port.sources.convert_files", unconverted)
    assert main(["port", "--steps", "1", "train.py"]) == 1
    assert "an assessment needs" not in capfd.readouterr().err
    assert document()["page"]["verdict"]["status"] == "failed"


@pytest.mark.slow
def test_force_replaces_only_a_folder_of_jumars_own_making(project: Path) -> None:
    assert main(["port", "--steps", "1", "train.py"]) == 0
    assert main(["port", "--steps", "1", "train.py"]) == 2
    assert main(["port", "--steps", "1", "--force", "train.py"]) == 0
