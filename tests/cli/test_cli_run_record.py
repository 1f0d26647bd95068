from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jumar.cli.main import main
from jumar.recording import Recording
from jumar.show.pages.runs import is_cuda_script

TRAIN = """
import sys, torch
print("arguments", sys.argv[1:])
model = torch.nn.Linear(2, 1)
updates = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.ones(1, 2)).sum().backward()
    updates.step()
if "--fail" in sys.argv:
    raise ValueError("boom")
if "--exit" in sys.argv:
    sys.exit(7)
"""


@pytest.fixture
def jumar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run a command in this process, in a folder that holds `train.py`."""
    (tmp_path / "train.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> int:
        before = dict(os.environ)
        try:
            return main(list(arguments))
        finally:
            os.environ.clear()
            os.environ.update(before)

    return run


def test_record_writes_a_recording_and_says_what_comes_next(jumar, tmp_path: Path, capsys) -> None:
    code = jumar("record", "-o", "out", "--device", "cpu", "train.py", "--lr", "1", "-o", "x", "--help")
    printed = capsys.readouterr()
    assert code == 0
    assert "arguments ['--lr', '1', '-o', 'x', '--help']" in printed.out
    assert "train.py finished; recorded 3 steps" in printed.err
    assert "jumar compare REFERENCE out" in printed.err
    recording = Recording.open(tmp_path / "out")
    assert (recording.steps(), recording.info.command[0]) == ([0, 1, 2], "train.py")


def test_a_script_that_asks_for_cuda_is_told_both_ways_on(jumar, tmp_path: Path, capsys) -> None:
    (tmp_path / "gpu.py").write_text("raise AssertionError('Torch not compiled with CUDA enabled')")
    for words in (["record", "-o", "out"], ["record", "-o", "out", "--device", "cpu", "--force"], ["run"]):
        assert jumar(*words, "gpu.py", "--lr", "1") in (1, 2)
        said = capsys.readouterr().err
        assert "gpu.py asks for CUDA" in said
        assert "jumar port gpu.py -- --lr 1" in said
        assert "--device cuda gpu.py --lr 1" in said
        assert "transfer_to_npu" in said


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("import torch\nx = torch.ones(2).to('cuda' if torch.cuda.is_available() else 'cpu')\n", True),
        ("import torch\nx = torch.ones(2).to('npu')\nprint('cuda')\n", False),
        ("import torch\nx = torch.ones(2)\n", False),
    ],
)
def test_a_script_for_cuda_that_ran_beside_the_npu_is_told(
    text: str, is_told: bool, jumar, tmp_path: Path, capsys
) -> None:
    (tmp_path / "script.py").write_text(text)
    assert is_cuda_script(tmp_path / "script.py") is is_told


def test_record_ends_the_script_after_the_steps_asked_for(jumar, tmp_path: Path, capsys) -> None:
    code = jumar("record", "-o", "out", "--device", "cpu", "--steps", "1:2", "train.py")
    assert (code, Recording.open(tmp_path / "out").steps()) == (0, [1])
    assert "ended train.py after 2 steps; recorded 1 step," in capsys.readouterr().err


def test_record_lets_the_script_go_on_when_asked(jumar, tmp_path: Path) -> None:
    jumar("record", "-o", "out", "--device", "cpu", "--steps", "1", "--go-on", "train.py")
    recording = Recording.open(tmp_path / "out")
    assert (recording.steps(), recording.ends[0].num_steps, recording.ends[0].status) == ([0], 3, "finished")


def test_levels_and_values_are_those_asked_for(jumar, tmp_path: Path) -> None:
    jumar("record", "-o", "out", "--device", "cpu", "--level", "module", "--values", "tensors", "train.py")
    recording = Recording.open(tmp_path / "out")
    assert {row.kind for row in recording.rows(0)} == {"module", "loss", "optimizer", "parameter"}
    assert recording.has_tensors()


@pytest.mark.parametrize(
    ("flag", "said"), [("--fail", "train.py raised ValueError: boom"), ("--exit", "exited with code 7")]
)
def test_record_of_a_failing_script_keeps_what_was_finished(
    jumar, tmp_path: Path, capsys, flag: str, said: str
) -> None:
    code = jumar("record", "-o", "out", "--device", "cpu", "train.py", flag)
    printed = capsys.readouterr().err
    assert (code, Recording.open(tmp_path / "out").steps()) == (2, [0, 1, 2])
    assert said in printed
    assert ("Traceback (most recent call last)" in printed) == (flag == "--fail")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["record", "-o", "out", "nothing.py"], "jumar: nothing.py cannot be read: No such file"),
        (["record", "-o", "out", "."], "is a folder"),
        (["record", "-o", "out", "--steps", "5:2", "train.py"], "START < END; got 5 >= 2"),
        (["record", "-o", "out", "--level", "layers", "train.py"], "levels are module, op and optimizer; got layers"),
        (["record", "-o", "train.py", "--device", "cpu", "train.py"], "train.py is a file"),
        (["record", "-o", ".", "--device", "cpu", "--force", "train.py"], "not a recording"),
        (["record", "train.py"], "Missing option '-o'"),
        (["run", "nothing.py"], "jumar: nothing.py cannot be read: No such file"),
        (["run", "--steps", "0", "train.py"], "--steps"),
        (["run", "--numeric", "exact", "train.py"], '"--numeric" is neither an option of this command nor a script'),
        (["run", "--npu-memory", "lots", "train.py"], '"--npu-memory lots" must be a size such as 32GB'),
    ],
)
def test_wrong_use_is_one_sentence_and_code_2(jumar, capsys, arguments: list[str], said: str) -> None:
    assert jumar(*arguments) == 2
    printed = capsys.readouterr().err
    assert said in printed
    assert "Traceback" not in printed


def test_a_recording_that_is_there_is_replaced_only_with_force(jumar, capsys) -> None:
    jumar("record", "-o", "out", "--device", "cpu", "train.py")
    assert jumar("record", "-o", "out", "--device", "cpu", "train.py") == 2
    assert "--force" in capsys.readouterr().err
    assert jumar("record", "-o", "out", "--device", "cpu", "--force", "train.py") == 0


@pytest.mark.parametrize("name", ["run", "record"])
def test_help_shows_an_example(jumar, capsys, name: str) -> None:
    assert jumar(name, "--help") == 0
    assert f"jumar {name} " in capsys.readouterr().out


@pytest.mark.slow
def test_run_gives_the_script_an_npu_and_returns_its_exit_code(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        TRAIN.replace("torch.ones(1, 2)", "torch.ones(1, 2).npu()").replace("Linear(2, 1)", "Linear(2, 1).npu()")
    )
    command = [sys.executable, "-c", "from jumar.cli.main import run; run()", "run", "train.py", "--exit"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (7, "arguments ['--exit']\n")


def test_an_error_of_several_lines_is_told_by_its_first(jumar, tmp_path: Path, capsys) -> None:
    (tmp_path / "train.py").write_text("raise ValueError('first line\\nsecond line\\n  third')\n")
    assert jumar("record", "-o", "out", "--device", "cpu", "train.py") == 2
    assert "train.py raised ValueError: first line; recorded 0 steps" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--budget", "0"], '"--budget 0" leaves no room'),
        (["--budget", "lots"], "must be a size, a slowdown in percent, or both"),
        (["--tensors-of", "gelu"], "Try --tensors-of '*/gelu/*'"),
        (["--tensors-of", "gone.json"], "--tensors-of gone.json cannot be read"),
        (["--values", "tensors", "--tensors-of", "*/fc/*"], "chooses nothing"),
        (["--go-on"], "--go-on has no effect without --steps"),
        (["--compiled", "kernels"], "'kernels' is not one of 'borders', 'graph'"),
    ],
)
def test_options_without_sense_are_refused_before_the_script_runs(
    jumar, tmp_path: Path, capsys, arguments: list[str], said: str
) -> None:
    assert jumar("record", "-o", "out", "--device", "cpu", *arguments, "train.py") == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert (printed.out, (tmp_path / "out").exists()) == ("", False)


def test_a_second_pass_keeps_the_tensors_of_the_suspects_only(jumar, tmp_path: Path, capsys) -> None:
    (tmp_path / "suspects.json").write_text('["op/forward/-/aten::addmm/0"]')
    options = ("--tensors-of", "suspects.json", "--tensors-of", "*/nowhere/*", "--budget", "1MB,100000%")
    assert jumar("record", "-o", "out", "--device", "cpu", "--steps", "0:2", *options, "train.py") == 0
    recording = Recording.open(tmp_path / "out")
    (row,) = [row for row in recording.rows(1) if row.name == "aten::addmm"]
    assert set(recording.tensors(row)) == {"input.0", "input.1", "input.2", "output.0"}
    assert "not covered: no recorded row matches '*/nowhere/*' of tensors-of" in capsys.readouterr().err
