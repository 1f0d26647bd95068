from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jumar.base.errors import DeviceError, OutputError, ScriptError
from jumar.capture import LaunchResult, RecordPlan, launch
from jumar.device import DevicePlan
from jumar.recording import Recording

MODEL = """
import os, sys, torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
"""
TRAIN = """
updates = torch.optim.SGD(model.parameters(), lr=0.1)
def step(device="cpu"):
    updates.zero_grad()
    loss = model(torch.randn(3, 4).to(device)).pow(2).mean()
    loss.backward()
    updates.step()
    print("loss", loss.item(), flush=True)
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[LaunchResult, str]]:
    """Launch a script made of `source` and return how it ended and what it printed."""

    def launch_source(source: str, *arguments: str, **options: Any) -> tuple[LaunchResult, str]:
        script = tmp_path / "train.py"
        script.write_text(source)
        known: dict[str, Any] = {
            "device": DevicePlan(kind="cpu"),
            "record": RecordPlan(out=str(tmp_path / "recording"), values="stats"),
            "stop_after": None,
            "cwd": tmp_path,
            "log": tmp_path / "run.log",
            "timeout_s": 120.0,
        }
        result = launch(script, arguments, **(known | options))
        return result, result.log.read_text()

    return launch_source


def test_a_script_runs_as_python_would_run_it(run, tmp_path: Path) -> None:
    source = (
        "import sys, pickle, helper\n"
        "class Thing: pass\n"
        "assert pickle.loads(pickle.dumps(Thing())).__class__ is Thing\n"
        "print([__name__, __file__, sys.argv, sys.path[0], __spec__, helper.VALUE])\n"
    )
    (tmp_path / "helper.py").write_text("VALUE = 3\n")
    result, printed = run(source, "--lr", "1", "--", "-x", record=None)
    script = str(tmp_path / "train.py")
    assert str(["__main__", script, [script, "--lr", "1", "--", "-x"], str(tmp_path), None, 3]) in printed
    assert (result.returncode, result.end) == (0, None)


def test_a_recorded_script_tells_its_progress_and_its_end(run, tmp_path: Path) -> None:
    told: list[int] = []
    result, _ = run(MODEL + TRAIN + "for _ in range(3):\n    step()\n", on_progress=told.append)
    assert (result.returncode, result.end.status, result.end.num_steps) == (0, "finished", 3)
    recording = Recording.open(tmp_path / "recording")
    assert (recording.steps(), recording.warnings) == ([0, 1, 2], [])
    assert told[-1] == 3
    assert recording.info.command == (str(tmp_path / "train.py"),)
    assert (recording.info.settings["num_threads"], recording.info.settings["torch_seed"]) == (1, 0)
    assert {row.source.split(":")[0] for row in recording.rows(1) if row.phase == "forward"} == {"train.py"}


def test_stop_after_runs_the_scripts_finally_blocks_and_exits_with_0(run) -> None:
    source = (
        MODEL
        + TRAIN
        + (
            "try:\n"
            "    for _ in range(50):\n"
            "        try:\n            step()\n        except Exception:\n            print('swallowed')\n"
            "finally:\n    print('cleaned up')\n"
        )
    )
    result, printed = run(source, stop_after=2)
    assert (result.returncode, result.end.status, result.end.num_steps) == (0, "stopped", 2)
    assert ("cleaned up" in printed, "swallowed" in printed, printed.count("loss")) == (True, False, 1)


def test_a_script_that_raises_shows_its_own_traceback_and_keeps_its_finished_steps(run, tmp_path: Path) -> None:
    result, printed = run(MODEL + TRAIN + "step()\nmodel(torch.ones(2, 9))\n")
    assert (result.returncode, result.end.status) == (1, "raised")
    assert Recording.open(tmp_path / "recording").steps() == [0]
    assert "mat1 and mat2 shapes cannot be multiplied" in result.end.error
    assert f'File "{tmp_path / "train.py"}", line' in result.end.error
    assert "/src/jumar/" not in printed


def test_a_script_killed_in_a_step_leaves_the_steps_before(run, tmp_path: Path) -> None:
    source = MODEL + TRAIN + "step()\nstep()\nstep()\nmodel(torch.ones(3, 4))\nos.kill(os.getpid(), 9)\n"
    result, _ = run(source)
    assert (result.returncode, result.end) == (-signal.SIGKILL, None)
    recording = Recording.open(tmp_path / "recording")
    assert recording.steps()[:2] == [0, 1]  # the third may have been under way to the disk
    assert "did not end" in recording.warnings[0]


WAIT_FOR_STEP_1 = """
import time
deadline = time.monotonic() + 60
while not os.path.exists("recording/steps/step-000001-rank-0.parquet"):
    assert time.monotonic() < deadline, "the step is not written"
    time.sleep(0.01)
"""


@pytest.mark.parametrize("values", ["stats", "tensors"])
def test_when_no_more_can_be_written_the_run_goes_on_and_the_end_says_where_it_stopped(
    run, tmp_path: Path, values: str
) -> None:
    source = (
        MODEL
        + TRAIN
        + "import resource\nstep()\nstep()\n"
        + WAIT_FOR_STEP_1
        + "resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))\n"
        + "step()\nstep()\nprint('script done')\n"
    )
    result, printed = run(source, record=RecordPlan(out=str(tmp_path / "recording"), values=values))
    recording = Recording.open(tmp_path / "recording")
    assert (result.returncode, result.end.status, result.end.num_steps) == (0, "finished", 4)
    assert (recording.steps(), recording.warnings) == ([0, 1], [])
    assert result.end.not_covered[0].startswith("steps from 2 on are not recorded: File too large. Free some space")
    assert "script done" in printed
    assert not list((tmp_path / "recording").rglob("*.part"))


def test_no_space_in_the_middle_of_a_tensor_file_keeps_the_steps_before(run, tmp_path: Path) -> None:
    source = (
        MODEL
        + TRAIN
        + "step()\nstep()\n"
        + WAIT_FOR_STEP_1
        + """
import errno
write, done = os.pwrite, []
def full(descriptor, data, position):
    done.append(len(data))
    if sum(done) > 3000:
        raise OSError(errno.ENOSPC, "No space left on device")
    return write(descriptor, data, position)
os.pwrite = full
step()
step()
print("script done")
"""
    )
    result, printed = run(source, record=RecordPlan(out=str(tmp_path / "recording"), values="tensors"))
    recording = Recording.open(tmp_path / "recording")
    assert (result.returncode, result.end.num_steps, recording.steps()) == (0, 4, [0, 1])
    assert "steps from 2 on are not recorded: No space left on device" in result.end.not_covered[0]
    assert "script done" in printed
    assert recording.tensors(recording.rows(1)[0])
    assert not list((tmp_path / "recording").rglob("*.part"))


def test_a_folder_that_becomes_unwritable_ends_the_recording_and_not_the_run(run, tmp_path: Path) -> None:
    source = (
        MODEL
        + TRAIN
        + "step()\nstep()\n"
        + WAIT_FOR_STEP_1
        + "import shutil\nshutil.rmtree('recording/steps')\nopen('recording/steps', 'w').close()\n"
        + "step()\nstep()\nprint('script done')\n"
    )
    result, printed = run(source)
    assert (result.returncode, result.end.status, "script done" in printed) == (0, "finished", True)
    assert result.end.not_covered[0].startswith("steps from 2 on are not recorded: ")


@pytest.mark.parametrize("how", ["os._exit(3)", "os.kill(os.getpid(), 9)", "os.kill(os.getpid(), 15)"])
def test_an_end_without_goodbye_leaves_finished_steps_and_reads_as_not_ended(run, tmp_path: Path, how: str) -> None:
    result, _ = run(MODEL + TRAIN + "step()\nstep()\n" + WAIT_FOR_STEP_1 + "step()\n" + how + "\n")
    assert result.returncode in {3, -9, -15}
    recording = Recording.open(tmp_path / "recording")
    assert (result.end, recording.steps()[:2]) == (None, [0, 1])
    assert any("did not end" in warning for warning in recording.warnings)


def _is_alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie, which waits for its parent, does not."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_a_timeout_ends_the_script_and_its_children(run, tmp_path: Path) -> None:
    source = (
        "import multiprocessing, os, time\n"
        "def sleep():\n    open('child', 'w').write(str(os.getpid()))\n    time.sleep(60)\n"
        "multiprocessing.get_context('fork').Process(target=sleep).start()\n"
        "time.sleep(60)\n"
    )
    result, _ = run(source, timeout_s=12.0)
    assert result.returncode != 0
    pid = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 10
    while _is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _is_alive(pid)


def test_ctrl_c_ends_the_child_and_is_passed_on(run, tmp_path: Path) -> None:
    def interrupt() -> None:
        deadline = time.monotonic() + 100
        while not (tmp_path / "started").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run("import time\nopen('started', 'w').close()\ntime.sleep(100)\n")
    end = Recording.open(tmp_path / "recording").ends[0]
    assert (end.status, end.exit_code) == ("interrupted", 130)


def test_a_script_that_is_missing_or_a_folder_is_one_sentence(tmp_path: Path) -> None:
    options: dict[str, Any] = {"device": DevicePlan(), "record": None, "stop_after": None, "cwd": tmp_path}
    with pytest.raises(ScriptError, match="cannot be read: No such file"):
        launch(tmp_path / "nothing.py", [], log=tmp_path / "log", **options)
    with pytest.raises(ScriptError, match="is a folder"):
        launch(tmp_path, [], log=tmp_path / "log", **options)


def test_what_stops_the_child_before_the_script_is_raised_here(run, tmp_path: Path) -> None:
    (tmp_path / "recording").mkdir()
    (tmp_path / "recording" / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match="not a recording"):
        run("print('never')\n")
    with pytest.raises(DeviceError, match="no CUDA device"):
        run("print('never')\n", device=DevicePlan(kind="cuda"), record=None)


@pytest.mark.slow
def test_the_emulated_npu_gives_the_losses_of_the_cpu_with_backward_rows_of_every_module(run, tmp_path: Path) -> None:
    source = (
        MODEL
        + ("device = 'npu' if hasattr(torch, 'npu') else 'cpu'\nmodel = model.to(device)\n")
        + TRAIN
        + "for _ in range(2):\n    step(device)\n"
    )
    paths = {kind: RecordPlan(out=str(tmp_path / kind)) for kind in ("cpu", "npu")}
    for kind, plan in paths.items():
        run(source, device=DevicePlan(kind=kind, real="never"), record=plan)
    cpu, npu = (Recording.open(plan.out) for plan in paths.values())
    assert npu.losses() == cpu.losses()
    assert npu.info.device == "npu (emulated)"
    rows = npu.rows(1)
    products = [row for row in rows if row.name == "aten::mm" and row.phase == "backward"]
    assert {(row.module_path, row.inputs[0].device) for row in products} == {("0", "npu:0"), ("2", "npu:0")}
    assert all(tensor.l2 is not None for row in rows for tensor in row.outputs if 0 not in tensor.shape)


LOADER = (
    MODEL
    + TRAIN
    + """
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self): return 40
    def __getitem__(self, index): return nn.Linear(4, 4)(torch.full((4,), float(index))).detach()
if __name__ == "__main__":
    for batch in DataLoader(Data(), batch_size=2, num_workers=2, multiprocessing_context=sys.argv[1]):
        updates.zero_grad()
        model(batch).sum().backward()
        updates.step()
    print("done")
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_data_loader_workers_do_not_record_and_end_with_the_run(run, tmp_path: Path, start: str) -> None:
    result, printed = run(LOADER, start, stop_after=3)
    assert (result.returncode, result.end.status) == (0, "stopped")
    recording = Recording.open(tmp_path / "recording")
    assert (recording.ranks, recording.steps()) == ([0], [0, 1, 2])
    assert "aten::full" not in {row.name for row in recording.iter_rows()}
    assert "Traceback" not in printed


DISTRIBUTED = (
    MODEL
    + """
import torch.distributed as dist, torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel
def worker(rank, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))
    updates = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        updates.zero_grad()
        model(torch.full((2, 4), float(rank))).sum().backward()
        updates.step()
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.spawn(worker, (os.path.abspath("store"),), nprocs=2)
"""
)


@pytest.mark.slow
def test_spawned_ranks_record_side_by_side_without_the_wrapper_in_their_paths(run, tmp_path: Path) -> None:
    result, _ = run(DISTRIBUTED)
    assert result.returncode == 0
    recording = Recording.open(tmp_path / "recording")
    assert (recording.ranks, recording.steps(0), recording.steps(1)) == ([0, 1], [0, 1, 2], [0, 1, 2])
    assert {rank: end.status for rank, end in recording.ends.items()} == {0: "finished", 1: "finished"}
    paths = {row.module_path for row in recording.rows(1, rank=1) if row.kind == "op"}
    assert {"0", "2"} <= paths
    assert not any("module" in path for path in paths)


SHARDED = DISTRIBUTED.replace(
    "DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))",
    "sharded(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))",
).replace(
    "def worker(",
    """
def sharded(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    return model
def worker(""",
)


@pytest.mark.slow
@pytest.mark.parametrize("values", ["sketch", "tensors"])
def test_sharded_parameters_are_recorded_on_each_rank_and_the_run_goes_on(run, tmp_path: Path, values: str) -> None:
    result, _ = run(SHARDED, record=RecordPlan(out=str(tmp_path / "recording"), values=values))
    assert result.returncode == 0
    recording = Recording.open(tmp_path / "recording")
    assert (recording.steps(0), recording.steps(1)) == ([0, 1, 2], [0, 1, 2])
    products = [row.module_path for row in recording.rows(1, rank=1) if row.name == "aten::addmm"]
    assert products == ["0", "2"]


@pytest.mark.slow
def test_compiled_regions_of_a_script_are_recorded_by_their_operators(run, tmp_path: Path) -> None:
    source = (
        MODEL
        + TRAIN
        + (
            "def gelu(x):\n    return 0.5 * x * (1 + torch.tanh(x))\n"
            "fast = torch.compile(gelu, backend='aot_eager', fullgraph=True)\n"
            "step()\nfast(torch.ones(3))\nstep()\n"
        )
    )
    result, _ = run(source)
    assert (result.returncode, result.end.num_steps) == (0, 2)
    assert result.end.not_covered == ()
    (row,) = [row for row in Recording.open(tmp_path / "recording").rows(1) if row.name == "aten::tanh"]
    assert row.source == "train.py:16"


def test_python_starts_without_torch_when_only_the_launcher_is_imported() -> None:
    import subprocess

    code = "import sys, jumar.capture; from jumar.capture import launch; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
