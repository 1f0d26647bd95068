"""Modules, launchers and shell scripts are run and recorded as scripts are, each process as a rank."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.recording import Recording

SCRIPT = """
import os
import sys

import torch
import torch.distributed as dist

from helper.model import make

dist.init_process_group("gloo")
rank = int(os.environ["LOCAL_RANK"])
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(make().to(f"npu:{rank}"), device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    loss = model(torch.full((2, 3), float(step + rank), device=f"npu:{rank}")).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
sys.stdout.write(f"ARGUMENTS {rank} {sys.argv[1:]} {__name__}\\n")  # in one piece: two ranks share the pipe
sys.stdout.flush()
if "--fail" in sys.argv:
    raise ValueError("planted")
dist.destroy_process_group()
""".replace('"gloo"', '"hccl"')

PLAIN = """
import sys

import torch

model = torch.nn.Linear(3, 1).npu()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = model(torch.ones(2, 3).npu()).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("ARGUMENTS", sys.argv, __package__, __spec__ and __spec__.name)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {
        "train.py": SCRIPT,
        "helper/__init__.py": "",
        "helper/model.py": "import torch\n\n\ndef make():\n    return torch.nn.Linear(3, 1)\n",
        "helper/plain.py": PLAIN,
        "helper/train.py": SCRIPT.replace("helper.model", ".model"),
        "train.sh": 'set -e\ncd "$(dirname "$0")"\npython -c "print(1)"\n'
        "torchrun --standalone --nproc-per-node 2 train.py --of $1\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def jumar(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from jumar.cli.main import run; run()", *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONSAFEPATH": "1", "JUMAR_RECORD_NATIVE": "0"}
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["torchrun", "--standalone", "--nproc-per-node", "2", "train.py", "--lr", "1"], "['--lr', '1'] __main__"),
        (
            ["python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "helper.train"],
            "[] __main__",
        ),
        (["bash", "train.sh", "7"], "['--of', '7'] __main__"),
    ],
    ids=["torchrun", "module", "shell"],
)
def test_each_process_of_a_launcher_is_a_rank(project: Path, words: list[str], arguments: str) -> None:
    done = jumar(project, "record", "-o", "rec", "--steps", "0:4", "--go-on", *words)
    assert done.returncode == 0, done.stderr[-2000:]
    for rank in (0, 1):
        assert f"ARGUMENTS {rank} {arguments}" in done.stdout
    recording = Recording.open(project / "rec")
    assert (recording.ranks, [recording.steps(rank) for rank in (0, 1)]) == ([0, 1], [[0, 1, 2, 3]] * 2)
    assert {end.status for end in recording.ends.values()} == {"finished"}
    assert "npu (emulated)" in recording.info.device
    rows = recording.rows(1, 1)
    assert {tensor.device for row in rows for tensor in row.outputs if row.name == "aten::addmm"} == {"npu:1"}
    assert any(row.source.startswith(("train.py", "helper/train.py")) for row in rows)


@pytest.mark.slow
def test_ranks_are_stopped_after_the_steps_and_their_errors_are_told(project: Path) -> None:
    words = ["torchrun", "--standalone", "--nproc-per-node", "2", "train.py"]
    done = jumar(project, "record", "-o", "rec", "--steps", "0:2", *words)
    assert (done.returncode, "ARGUMENTS" in done.stdout) == (0, False), done.stderr[-2000:]
    assert {end.status for end in Recording.open(project / "rec").ends.values()} == {"stopped"}
    failed = jumar(project, "record", "-o", "failed", *words, "--fail")
    assert failed.returncode == 2
    assert "ValueError: planted" in failed.stderr
    assert {end.status for end in Recording.open(project / "failed").ends.values()} <= {"raised", "interrupted"}


@pytest.mark.slow
def test_a_module_runs_as_python_runs_it(project: Path) -> None:
    done = jumar(project, "run", "-m", "helper.plain", "--epochs", "1")
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.strip() == f"ARGUMENTS ['{project / 'helper' / 'plain.py'}', '--epochs', '1'] helper helper.plain"
    )


@pytest.mark.slow
def test_a_script_that_needs_a_launcher_gets_the_line_that_works(project: Path) -> None:
    done = jumar(project, "run", "train.py", "--lr", "1")
    assert done.returncode == 1
    line = next(line for line in done.stderr.splitlines() if "which a launcher sets" in line)
    again = jumar(project, *line.partition("Start it with one: jumar ")[2].split())
    assert again.returncode == 0, again.stderr[-2000:]
    assert "ARGUMENTS 1 ['--lr', '1']" in again.stdout


@pytest.mark.slow
def test_commands_of_the_shell_that_train_nothing_are_left_alone(project: Path) -> None:
    (project / "tools.sh").write_text(
        "python --version\npython -m json.tool --help | head -1\npython -c 'print(6 * 7)'\n"
    )
    done = jumar(project, "run", "bash", "tools.sh")
    assert done.returncode == 0, done.stderr
    assert "Python 3" in done.stdout
    assert "usage: " in done.stdout
    assert "42" in done.stdout
