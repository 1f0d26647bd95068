"""`jumar profile` in processes of its own: each way to start a training, and each way in which it can end."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

LAUNCH = "import sys; from jumar.cli.main import main; sys.exit(main(sys.argv[1:]))"
LOOP = """
import os, sys, time, torch
from torch.utils.data import DataLoader, TensorDataset

def train(num_steps=14):
    model = torch.nn.Linear(4, 1)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(num_steps):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        if step == int(os.environ.get("FAIL", -1)):
            exec(os.environ["HOW"])
"""
RANKED = LOOP + "torch.distributed.init_process_group('gloo')\ntrain()\ntorch.distributed.destroy_process_group()\n"
SPAWNED = (
    LOOP
    + """
def rank(number, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=number, world_size=2)
    train()
    torch.distributed.destroy_process_group()

if __name__ == "__main__":
    import socket
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    torch.multiprocessing.spawn(rank, (port,), nprocs=2)
"""
)
LOADS = (
    LOOP
    + """
if __name__ == "__main__":
    loader = DataLoader(TensorDataset(torch.ones(12, 4)), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    model = torch.nn.Linear(4, 1)
    for (batch,) in loader:
        model(batch)
"""
)


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess]:
    def start(*words: str, **environment: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-c", LAUNCH, "profile", "-o", "p", *words],
            cwd=tmp_path, env={**os.environ, **environment}, capture_output=True, text=True, timeout=250, check=False,
        )  # fmt: skip

    return start


def document(folder: Path) -> dict:
    return json.loads((folder / "profile.json").read_text("utf-8"))


def marks(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    return sorted(event["name"] for event in events if event["name"].startswith(("ProfilerStep#", "unfinished")))


def test_a_script_is_profiled_and_ended_after_its_steps(run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOOP + "train(1000)\nprint('not reached')\n")
    done = run("--skip", "2", "--active", "2", "--stop", "train.py")
    assert (done.returncode, done.stdout) == (0, "")
    assert marks(tmp_path / "p" / "rank-0.json.gz") == ["ProfilerStep#3", "ProfilerStep#4"]
    found = document(tmp_path / "p")
    assert (found["status"], found["ranks"]["0"]["steps_seen"], found["command"]) == ("stopped", 8, ["train.py"])
    assert "jumar: ended train.py after 8 steps; profiled 2 steps" in done.stderr
    assert "without the profiler" in done.stderr
    assert "next, name the bottlenecks: jumar advise p" in done.stderr


@pytest.mark.parametrize("way", ["torchrun", "module", "shell", "spawn"])
def test_each_rank_has_a_trace(run, tmp_path: Path, way: str) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").write_text(RANKED)
    (tmp_path / "spawned.py").write_text(SPAWNED)
    (tmp_path / "train.sh").write_text("torchrun --standalone --nproc-per-node 2 package/train.py\n")
    launch = ("--standalone", "--nproc-per-node", "2")
    words = {
        "torchrun": ("torchrun", *launch, "package/train.py"),
        "module": ("python", "-m", "torch.distributed.run", *launch, "-m", "package.train"),
        "shell": ("bash", "train.sh"),
        "spawn": ("spawned.py",),
    }[way]
    done = run("--steps", "3:5", *words)
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        assert marks(tmp_path / "p" / f"rank-{rank}.json.gz") == ["ProfilerStep#3", "ProfilerStep#4"]
        assert (tmp_path / "p" / f"host-rank-{rank}.jsonl").stat().st_size > 0
    found = document(tmp_path / "p")
    assert (found["status"], found["world_size"]) == ("finished", 2)
    assert {facts["status"] for facts in found["ranks"].values()} == {"finished"}
    assert "profiled 2 steps of 2 ranks" in done.stderr


def test_ranks_that_profile_themselves_share_a_folder(tmp_path: Path) -> None:
    body = RANKED.replace("\ntrain()\n", "\nimport jumar\nwith jumar.profile('p', steps=(2, 4)):\n    train()\n")
    (tmp_path / "train.py").write_text(body)
    words = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py")
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        assert marks(tmp_path / "p" / f"rank-{rank}.json.gz") == ["ProfilerStep#2", "ProfilerStep#3"]
    assert document(tmp_path / "p")["status"] == "finished"


def test_one_rank_may_be_chosen(run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RANKED)
    done = run(
        "--steps", "2:3", "--ranks", "1", "--stop", "torchrun", "--standalone", "--nproc-per-node", "2", "train.py"
    )
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "p").glob("rank-*")) == ["rank-1.json.gz"]


@pytest.mark.parametrize(("step", "traced"), [("9", ["ProfilerStep#3", "ProfilerStep#4"]), ("3", None)])
def test_after_a_kill_what_was_finished_is_readable(run, tmp_path: Path, step: str, traced: list[str] | None) -> None:
    (tmp_path / "train.py").write_text(LOOP + "train()\n")
    done = run("--steps", "3:5", "train.py", FAIL=step, HOW="os.kill(os.getpid(), 9)")
    assert done.returncode == -signal.SIGKILL
    facts = document(tmp_path / "p")["ranks"]["0"]
    assert facts["status"] == "running"
    assert facts.get("files", [None])[0] == ("rank-0.json.gz" if traced else None)
    if traced:
        assert marks(tmp_path / "p" / "rank-0.json.gz") == traced
    else:
        assert not (tmp_path / "p" / "rank-0.json.gz").exists()


def test_a_killed_rank_is_named_where_the_launcher_lives(run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOOP + "train()\n")
    done = run(
        "--steps", "3:5", "torchrun", "--standalone", "--nproc-per-node", "1", "train.py",
        FAIL="4", HOW="os.kill(os.getpid(), 9)",
    )  # fmt: skip
    assert done.returncode == 2
    assert document(tmp_path / "p")["status"] == "killed"
    assert "was killed" in done.stderr


def test_a_script_that_raises_keeps_its_traceback_and_its_steps(run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOOP + "train()\n")
    done = run("--steps", "2:9", "train.py", FAIL="4", HOW="raise ValueError('diverged')")
    assert done.returncode == 2
    assert "ValueError: diverged" in done.stderr
    assert "capture/profile" not in done.stderr
    assert marks(tmp_path / "p" / "rank-0.json.gz") == [
        "ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4", "unfinished step 5",
    ]  # fmt: skip


def test_ctrl_c_keeps_the_steps(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOOP + "train()\nprint('ready', flush=True)\ntime.sleep(99)\n")
    words = [sys.executable, "-c", LAUNCH, "profile", "-o", "p", "--steps", "3:99", "train.py"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert document(tmp_path / "p")["status"] == "interrupted"
    assert "ProfilerStep#13" in marks(tmp_path / "p" / "rank-0.json.gz")


def test_a_script_without_a_step_says_so(run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('done')\n")
    done = run("train.py")
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "no step was profiled" in done.stderr
    assert "the script completed no step" in done.stderr
    assert "jumar advise" not in done.stderr


def test_workers_that_are_spawned_tell_their_stages(run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOADS)
    done = run("--steps", "1:4", "train.py")
    assert done.returncode == 0, done.stderr
    assert "is not profiled" not in done.stderr
    with gzip.open(tmp_path / "p" / "rank-0.json.gz", "rt") as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("cat") == "jumar"]
    assert {"loader fetch", "loader collate", "loader transfer", "loader next"} <= {event["name"] for event in events}
    assert not list((tmp_path / "p").glob("loader-*"))


def test_on_the_emulated_npu_its_own_profiler_writes_beside(run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch, torch_npu\n"
        "model = torch.nn.Linear(4, 1).npu()\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(9):\n"
        "    model(torch.ones(2, 4).npu()).sum().backward()\n"
        "    optimizer.step()\n"
        "    torch.npu.synchronize()\n"
    )
    done = run("--steps", "3:5", "--device", "npu", "train.py")
    assert done.returncode == 0, done.stderr
    facts = document(tmp_path / "p")["ranks"]["0"]
    (vendors,) = (name for name in facts["files"] if name.endswith("_ascend_pt"))
    view = (tmp_path / "p" / vendors / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").read_text()
    assert all(f"ProfilerStep#{step}" in view for step in (3, 4))
    assert "ProfilerStep#5" not in view
    assert "Incorrect schedule" not in done.stderr
    with gzip.open(tmp_path / "p" / "rank-0.json.gz", "rt") as file:
        waits = [event for event in json.load(file)["traceEvents"] if event["name"] == "torch.npu.synchronize"]
    assert {event["args"]["source"] for event in waits} == {"train.py:7"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--steps", "3:5", "--skip", "1", "train.py"), "Give one of the two"),
        (("--ranks", "a", "train.py"), "must be ranks with commas"),
        (("-o", "train.py/p", "train.py"), "cannot be"),
        (("nothing.py",), "cannot be read"),
    ],
)
def test_wrong_use_is_one_sentence(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    (tmp_path / "train.py").write_text("print('ran')\n")
    done = subprocess.run(
        [sys.executable, "-c", LAUNCH, "profile", *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
