"""Job type 4 from end to end: real processes over Gloo, the bank, recordings, and what is told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tune_builders import MACHINE

from jumar.base.errors import InputError
from jumar.cli.main import EXIT_USAGE, main
from jumar.recording import Recording
from jumar.show.tuning.gradients import gradients_page
from jumar.tune.bank.store import Bank
from jumar.tune.job.gradients.job import answered
from jumar.tune.job.gradients.messages import GradientOptions
from jumar.tune.job.gradients.offline.recorded import recorded_gradients
from jumar.tune.job.gradients.offline.solved import tune_recording
from jumar.tune.job.gradients.rank import Reducers, gradients_of, task_of
from jumar.tune.model.gate import gain_of
from jumar.tune.search.gradients.forms import cap_list, read_gradient_fusion
from jumar.tune.search.gradients.model import Gradient, Link
from jumar.tune.search.gradients.outcome import GradientResult
from jumar.tune.search.gradients.splits import sizes_of

SCRIPT = """
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.manual_seed(0)
dist.init_process_group("gloo")
layers = [layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.ReLU())]
model = DistributedDataParallel(nn.Sequential(*layers, nn.Linear(512, 4)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(torch.randn(16, 512)).square().sum().backward()
    optimizer.step()
raise SystemExit("the training must have been ended" if sys.argv[1] == "99" else 0)
"""

pytestmark = pytest.mark.filterwarnings("ignore:.*broadcast_buffers.*:FutureWarning")


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script of two processes; the bank and the result files are in the test's folder."""
    monkeypatch.setenv("TUNE_BANK_PATH", str(tmp_path))
    monkeypatch.setenv("ASCEND_WORK_PATH", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def document_of(captured: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(captured)
    return found


@pytest.mark.slow
def test_a_training_is_measured_once_and_the_bank_knows_it_then(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # A gain of 900 % is out of reach, so that what comes out does not hang on the machine.
    command = ["tune", str(script), "--job-type", "4", "--nproc", "2", "--time-budget", "6s", "--min-gain", "900%"]
    command += ["--json", "--allreduce", "10us,10MB/s", "--", "99"]
    assert main(command) == 0
    first = document_of(capsys.readouterr().out)
    gradients = [Gradient(**one) for one in first["gradients"]]
    assert [one.size_bytes for one in gradients][-2:] in ([512 * 512 * 4, 2048], [2048, 512 * 512 * 4])
    assert (first["status"], first["action"], first["is_faster"]) == ("measured", "unsatisfied", False)
    assert first["buckets_after"] == sizes_of(gradients, first["split"]["ends"]), "DDP cut what was proposed"
    assert first["split"]["num_buckets"] > first["own"]["num_buckets"]
    assert first["split"]["tail_s"] < first["own"]["tail_s"]
    assert first["disagreement"] == ""
    assert first["gain"]["num_pairs"] >= 15
    assert first["training"]["num_processes"] == 2
    [entry] = read_gradient_fusion(tmp_path / "cpu_gradient_fusion.json")
    assert entry["modelvalue"]["gradientSize"] == [one.size_bytes for one in gradients]

    assert main(command) == 0
    again = document_of(capsys.readouterr().out)
    assert (again["status"], again["action"], again["gain"]) == ("known", "unsatisfied", first["gain"])

    assert main(["bank", "list", "--json"]) == 0
    [known] = document_of(capsys.readouterr().out)["entries"]
    assert (known["task"]["operator"], known["policy"]) == ("c10d::allreduce_", None)
    assert known["tried"][0]["policy"]["settings"]["bucket_cap_mb_list"] == list(first["forms"]["bucket_cap_mb_list"])


@pytest.mark.slow
def test_from_inside_a_training_that_torchrun_started(script: Path, tmp_path: Path) -> None:
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "jumar", "run"]
    environment = os.environ | {"AOE_MODE": "4"}
    result = subprocess.run(
        [sys.executable, *words, str(script), "7"], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode != 0
    assert "ended after 7 backward passes, and 8 are watched" in result.stderr


ALONE = """
import torch
from torch import nn

model = nn.Linear(4, 2)
for _ in range(9):
    model(torch.ones(1, 4)).sum().backward()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        (ALONE, [], "this training has one process"),
        (ALONE, ["--nproc", "2"], "the script makes no process group"),
        (SCRIPT, ["--nproc", "2", "--", "3"], "ended after 3 backward passes, and 8 are watched"),
    ],
)
def test_a_training_that_tells_nothing_is_one_sentence(
    script: Path, text: str, options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script.write_text(text)
    assert main(["tune", str(script), "--job-type", "4", *options]) == EXIT_USAGE
    assert sentence in capsys.readouterr().err


TWO = Reducers(processes=2, hosts=1, backend="gloo", rate=1.0)


def answer(tmp_gain: float, **changes: Any) -> dict[str, Any]:
    """Return what two processes would have measured, with pairs that are faster by `tmp_gain`."""
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4)))
    parameters = dict(model.named_parameters())
    gradients = gradients_of(parameters, [{name: -place * 1000 for place, name in enumerate(parameters)}])
    gain = gain_of([100.0 * tmp_gain] * 20, [100.0] * 20)
    ends = [3, 7]
    return {
        "task": task_of(gradients, TWO, [torch.ones(2, 64)]).to_json(),
        "machine": {name: getattr(MACHINE, name) for name in type(MACHINE).__dataclass_fields__},
        "gradients": [one.to_json() for one in gradients], "link": Link(latency_s=1e-5, bandwidth=1e8).to_json(),
        "world_size": 2, "backend": "gloo", "is_wrapped": True, "num_steps": 8, "device": "cpu", "is_default": True,
        "own_ends": [7], "status": "measured", "split": {"ends": ends}, "gain": gain.to_json(),
        "settings": {"bucket_cap_mb_list": list(cap_list(gradients, ends))}, "disagreement": "", **changes,
    }  # fmt: skip


def result_of(tmp_path: Path, found: dict[str, Any]) -> GradientResult:
    bank = Bank.open(tmp_path)
    return answered(found, "train.py", bank=bank, result_folder=tmp_path, options=GradientOptions(), began=0.0)


def test_the_bank_keeps_what_passes_the_gate_and_never_slips_back(tmp_path: Path) -> None:
    slow, fast, faster = answer(1.0), answer(1.5), answer(2.0)
    assert result_of(tmp_path, slow).action == "unsatisfied"
    assert result_of(tmp_path, fast).action == "add"
    assert result_of(tmp_path, slow).action == "reserved"
    assert result_of(tmp_path, faster).action == "update"
    assert result_of(tmp_path, fast).action == "reserved"
    bank = Bank.open(tmp_path)
    [entry] = bank.entries()
    assert entry.gain is not None
    assert entry.gain.ratio == pytest.approx(2.0)
    assert entry.policy is not None
    assert entry.policy.provider == "gradient_buckets"
    assert bank.problems() == []


def test_wrong_gradients_are_never_kept_however_fast(tmp_path: Path) -> None:
    found = result_of(tmp_path, answer(3.0, disagreement="0.weight differs by 1"))
    assert (found.action, found.is_faster) == ("unsatisfied", False)
    assert gradients_page(found).verdict.status == "attention"
    assert [one.policy for one in Bank.open(tmp_path).entries()] == [None]


def test_what_the_bank_knows_is_told_with_its_own_split(tmp_path: Path) -> None:
    result_of(tmp_path, answer(1.5))
    again = answer(1.5, status="known")
    for name in ("split", "settings", "gain", "disagreement"):
        del again[name]
    found = result_of(tmp_path, again)
    assert (found.split.ends, found.action) == ((3, 7), "reserved")
    assert found.gain == result_of(tmp_path, answer(1.5)).gain
    assert "The bank knows" in gradients_page(found).verdict.headline


def test_what_was_known_before_is_asked_of_the_processes(tmp_path: Path) -> None:
    result_of(tmp_path, answer(1.0))
    bank = Bank.open(tmp_path)
    assert len(GradientOptions().request(bank).known) == 1
    assert GradientOptions(repeat=True).request(bank).known == []
    assert GradientOptions(min_gain=0.01).request(bank).known == []  # what was not 2 % faster may be 1 % faster


@pytest.mark.parametrize(
    ("changes", "headline"),
    [
        ({}, "is not 2 % faster with the proposed 2 buckets than with DDP's default"),
        ({"status": "same", "own_ends": [3, 7]}, "is already the split with the smallest tail"),
        ({"is_default": False}, "than with the script's own buckets"),
    ],
)
def test_a_change_that_gains_nothing_is_said_with_its_numbers(
    tmp_path: Path, changes: dict[str, Any], headline: str
) -> None:
    verdict = gradients_page(result_of(tmp_path, answer(1.0, **changes))).verdict
    assert headline in verdict.headline
    assert re.search(r"arrives [\d.]+ ms after the backward pass .* and [\d.]+ ms with 2 buckets", verdict.details[1])


def test_an_emulated_npu_is_called_one(tmp_path: Path) -> None:
    page = gradients_page(result_of(tmp_path, answer(1.0, device="npu")))
    assert any("says nothing about the real one" in line for line in page.verdict.details)


@pytest.mark.slow
def test_a_recording_tells_sizes_and_ready_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ASCEND_WORK_PATH", str(tmp_path))
    script = tmp_path / "one.py"
    script.write_text(
        "import torch\nfrom torch import nn\n"
        "model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 4))\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(3):\n    optimizer.zero_grad()\n    model(torch.ones(8, 64)).square().sum().backward()\n"
        "    optimizer.step()\n"
    )
    folder = tmp_path / "recording"
    assert main(["record", "-o", str(folder), "--steps", "0:3", "--device", "cpu", str(script)]) == 0
    gradients = recorded_gradients(Recording.open(folder)).gradients
    sizes = {one.name: one.size_bytes for one in gradients}
    assert sizes == {"0.weight": 64 * 128 * 4, "0.bias": 512, "2.weight": 128 * 4 * 4, "2.bias": 16}
    assert {one.name for one in gradients[:2]} == {"2.weight", "2.bias"}
    assert [one.place for one in sorted(gradients, key=lambda one: one.place)] == [0, 1, 2, 3]
    options = GradientOptions(link=Link(latency_s=1e-6, bandwidth=1e9))
    found = tune_recording(folder, result_folder=tmp_path, options=options)
    assert (found.status, found.gain, found.action) == ("solved", None, "")
    assert "a recording is not measured" in gradients_page(found).verdict.headline
    capsys.readouterr()
    assert main(["tune", str(folder), "--job-type", "4", "--nproc", "2", "--json"]) == 0
    document = document_of(capsys.readouterr().out)
    assert document["link_source"] == "measured between 2 processes of this machine, by gloo"
    assert len(document["link"]["samples"]) >= 3


def test_a_recording_without_gradients_is_one_sentence(tmp_path: Path) -> None:
    from tune_builders import write_recording

    write_recording(tmp_path / "recording", [[]])
    with pytest.raises(InputError, match="Record at least one whole step"):
        recorded_gradients(Recording.open(tmp_path / "recording"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--job-type", "2", "--nproc", "2"], "--nproc belongs to job type 4"),
        (["--job-type", "4", "--report", "page.html"], "--report does nothing for a job of type 4"),
        (["--job-type", "4", "--allreduce", "fast"], "must be LATENCY,BANDWIDTH"),
        (["--job-type", "4", "--max-bucket", "wide"], "--max-bucket"),
    ],
)
def test_options_that_would_do_nothing_are_refused(
    options: list[str], sentence: str, script: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", str(script), *options]) == EXIT_USAGE
    assert sentence in capsys.readouterr().err


def test_nproc_beside_a_launcher_is_refused(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["torchrun", "--job-type", "4", "--nproc", "2", "--", "--nproc-per-node", "2", str(script), "3"]
    assert main(["tune", *words]) == EXIT_USAGE
    assert "torchrun does that itself" in capsys.readouterr().err


ON_NPU = """
import os
import torch
import torch_npu
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["LOCAL_RANK"])
torch.npu.set_device(rank)
dist.init_process_group("hccl")
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).npu(), device_ids=[rank])
for _ in range(99):
    model(torch.randn(8, 64).npu()).square().sum().backward()
"""


@pytest.mark.slow
def test_on_the_emulated_npu_over_hccl(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script.write_text(ON_NPU)
    command = ["tune", str(script), "--job-type", "4", "--nproc", "2", "--device", "npu:Ascend910A", "--json"]
    assert main([*command, "--allreduce", "0us,1MB/s", "--time-budget", "3s", "--min-gain", "900%"]) == 0
    found = document_of(capsys.readouterr().out)
    training = found["training"]
    assert (training["backend"], training["device"], training["is_emulated"]) == ("hccl", "npu", True)
    assert (found["status"], found["disagreement"], found["link_source"]) == ("measured", "", "given")
    assert found["buckets_after"] == sizes_of([Gradient(**one) for one in found["gradients"]], found["split"]["ends"])
    assert (tmp_path / "Ascend910A_gradient_fusion.json").is_file()
