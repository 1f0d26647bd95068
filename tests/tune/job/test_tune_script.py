"""Scripts as sources of tuning: run unchanged for their first step, their graphs or operators collected."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from jumar.base.errors import InputError
from jumar.cli.main import EXIT_USAGE, main
from jumar.tune.backend import install
from jumar.tune.backend.collect import read_collected
from jumar.tune.job.script import ScriptRun, collect_graphs, is_script, script_source

SCRIPT = """
import sys
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
run = torch.compile(model) if "--compile" in sys.argv else model
for _ in range(3):
    optimizer.zero_grad()
    loss = run(torch.ones(3, 4)).square().sum()
    loss.backward()
    optimizer.step()
raise SystemExit("the script must have been ended after its first step")
"""

pytestmark = pytest.mark.filterwarnings("ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated:FutureWarning")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("--compile",)])
def test_the_graphs_of_a_training_script_are_collected(
    script: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    result = collect_graphs(ScriptRun(script=script, arguments=arguments), tmp_path / "graphs")
    found = read_collected(tmp_path / "graphs")
    assert result.returncode == 0
    assert [one.origin.phase for one in found] == ["training"]


@pytest.mark.slow
def test_the_operators_of_a_script_are_a_source(script: Path) -> None:
    with script_source(ScriptRun(script=script), 2) as source:
        assert source.path == str(script)
        assert {use.task.base for use in source.extraction.tasks} >= {"addmm"}


@pytest.mark.slow
def test_a_script_that_fails_or_computes_nothing_is_told(tmp_path: Path) -> None:
    failing = tmp_path / "failing.py"
    failing.write_text("raise RuntimeError('out of coffee')\n")
    with pytest.raises(InputError, match="out of coffee"):
        collect_graphs(ScriptRun(script=failing), tmp_path / "one")
    idle = tmp_path / "idle.py"
    idle.write_text("print('done')\n")
    with pytest.raises(InputError, match="does it call a module"):
        collect_graphs(ScriptRun(script=idle), tmp_path / "two")


def test_what_is_a_script(script: Path, tmp_path: Path) -> None:
    assert is_script(str(script))
    assert not is_script(str(tmp_path / "none.py"))
    assert not is_script(f"{script}:make")


@pytest.mark.slow
@pytest.mark.parametrize("job_type", [1, 2])
def test_what_a_script_that_failed_wrote_stays_where_the_sentence_says(tmp_path: Path, job_type: int) -> None:
    failing = tmp_path / "failing.py"
    failing.write_text("raise RuntimeError('out of coffee\\nand of tea')\n")
    sentence = r"exited with code 1 \(RuntimeError: out of coffee\)"
    with pytest.raises(InputError, match=sentence) as error, script_source(ScriptRun(script=failing), job_type):
        pass
    log = Path(str(error.value).partition("see ")[2].rstrip("."))
    assert "line 1, in <module>" in log.read_text()
    log.unlink()


@pytest.mark.parametrize(
    ("mode", "sentence"), [("4", "this training has one process"), ("3", "must be 1"), ("on", "must be 1")]
)  # fmt: skip
def test_another_aoe_mode_is_refused(
    mode: str, sentence: str, script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AOE_MODE", mode)
    assert main(["run", str(script)]) == EXIT_USAGE
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--tuned", "--summary", "--steps=2"])
def test_options_of_a_run_are_refused_where_aoe_mode_tunes_the_script(
    option: str, script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AOE_MODE", "1")
    assert main(["run", option, str(script)]) == EXIT_USAGE
    assert f"{option.partition('=')[0]} would do nothing" in capsys.readouterr().err


def test_aoe_mode_says_which_script_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AOE_MODE", "2")
    assert main(["run", str(tmp_path / "none.py")]) == EXIT_USAGE
    assert "none.py" in capsys.readouterr().err


def test_installed_the_outermost_module_is_compiled_and_put_back_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUMAR_TUNE_COLLECT", str(tmp_path))
    before: tuple[Any, Any] = (torch.compile, nn.Module.__call__)
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh())).eval()
    x = torch.ones(2, 4)
    with torch.no_grad():
        expected = model(x)
        torch._dynamo.reset()
        install.install()
        try:
            actual = model(x)
            nn.ReLU()(x)
        finally:
            install.uninstall()
            torch._dynamo.reset()
    assert torch.equal(expected, actual)
    assert (torch.compile, nn.Module.__call__) == before
    assert "forward" not in model.__dict__
    (found,) = read_collected(tmp_path)
    assert [node.operator for node in found.graph.nodes] == ["aten::linear", "aten::linear", "aten::tanh"]


def test_installed_the_model_of_a_distributed_script_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUMAR_TUNE_COLLECT", str(tmp_path))
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
    torch._dynamo.reset()
    install.install()
    try:
        model(torch.ones(2, 4)).sum().backward()
    finally:
        install.uninstall()
        torch._dynamo.reset()
        torch.distributed.destroy_process_group()
    (found,) = read_collected(tmp_path)
    assert (found.origin.phase, len(found.graph.gradients)) == ("training", 2)
    assert all(parameter.grad is not None for parameter in model.parameters())


class Waits(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.entered, self.may_leave = threading.Event(), threading.Event()

    def forward(self) -> None:
        self.entered.set()
        assert self.may_leave.wait(20)


@pytest.mark.parametrize("is_uninstalled", [False, True])
def test_installed_it_stays_so_whichever_thread_leaves_last(is_uninstalled: bool) -> None:
    before = nn.Module.__call__
    install.install()
    ours = nn.Module.__call__
    modules = [Waits(), Waits()]
    threads = [threading.Thread(target=ours, args=(module,)) for module in modules]
    try:
        for thread, module in zip(threads, modules, strict=True):
            thread.start()
            assert module.entered.wait(20)
        if is_uninstalled:
            install.uninstall()
        for thread, module in zip(threads, modules, strict=True):
            module.may_leave.set()
            thread.join()
        assert nn.Module.__call__ is (before if is_uninstalled else ours)
    finally:
        install.uninstall()
    assert nn.Module.__call__ is before
