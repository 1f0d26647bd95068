from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jumar.base.errors import ScriptError, UsageError
from jumar.capture import RecordPlan, run_script
from jumar.capture.plans.plan import stop_after_from
from jumar.recording import Recording, RunEnd

TRAIN = """
import torch
weight = torch.nn.Parameter(torch.ones(3))
updates = torch.optim.SGD([weight], lr=0.1)
for _ in range(5):
    weight.pow(2).sum().backward()
    updates.step()
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., RunEnd]:
    """Run a script made of `source` in this process."""

    def run_source(source: str, *arguments: str, stop_after: int | None = None, **plan: Any) -> RunEnd:
        script = tmp_path / "train.py"
        script.write_text(source)
        return run_script(
            script, arguments, plan=RecordPlan(out=str(tmp_path / "r"), **plan) if plan else None, stop_after=stop_after
        )

    return run_source


@pytest.mark.parametrize(
    ("statement", "code"), [("sys.exit(7)", 7), ("sys.exit()", 0), ("sys.exit('bye')", 1), ("raise SystemExit", 0)]
)
def test_a_script_that_exits_keeps_its_code(run, capsys, statement: str, code: int) -> None:
    end = run(f"import sys\n{statement}\n")
    assert (end.status, end.exit_code) == ("exited", code)
    assert capsys.readouterr().err == ("bye\n" if "bye" in statement else "")


def test_an_exception_is_shown_without_jumars_frames_and_with_its_cause(run, capsys, tmp_path: Path) -> None:
    source = "try:\n    {}['key']\nexcept KeyError as error:\n    raise ValueError('boom') from error\n"
    end = run(source)
    shown = capsys.readouterr().err
    assert (end.status, end.exit_code, end.error) == ("raised", 1, shown)
    assert shown.splitlines()[:2] == [
        "Traceback (most recent call last):",
        f'  File "{tmp_path / "train.py"}", line 2, in <module>',
    ]
    assert "direct cause" in shown
    assert f"{os.sep}jumar{os.sep}" not in shown.replace(str(tmp_path), "")


def test_ctrl_c_is_interrupted_with_code_130(run) -> None:
    end = run("raise KeyboardInterrupt")
    assert (end.status, end.exit_code) == ("interrupted", 130)


def test_the_process_is_as_before_after_a_script(run) -> None:
    before = (sys.modules["__main__"], list(sys.argv), list(sys.path), dict(os.environ))
    run("import os, sys\nsys.path.append('x')\nos.environ['JUMAR_TEST'] = '1'\nassert sys.argv[1:] == ['--a']\n", "--a")
    assert (sys.modules["__main__"], sys.argv, sys.path, dict(os.environ)) == before


def test_child_processes_find_the_plan_in_the_environment(run, tmp_path: Path, capsys) -> None:
    end = run(
        "import os\nprint(os.environ['JUMAR_RECORD_PLAN'])\nprint(os.environ['JUMAR_STOP_AFTER'])\n",
        values="stats",
        stop_after=3,
    )
    plan, stop_after = capsys.readouterr().out.splitlines()
    assert end.status == "finished"
    inherited = RecordPlan.from_environment({"JUMAR_RECORD_PLAN": plan})
    assert inherited is not None
    assert (inherited.out, inherited.prepared, inherited.command) == (
        str(tmp_path / "r"),
        True,
        (str(tmp_path / "train.py"),),
    )
    assert stop_after == "3"


def test_recorded_steps_are_told_and_stop_after_stops(run, tmp_path: Path) -> None:
    end = run(TRAIN, stop_after=2, values="stats")
    assert (end.status, end.num_steps, end.exit_code) == ("stopped", 2, 0)
    assert [round(loss, 4) for _, loss in Recording.open(tmp_path / "r").losses()] == [3.0, 1.92]


def test_a_run_that_raises_before_any_step_says_so(run, tmp_path: Path) -> None:
    end = run("raise ValueError('early')", values="stats")
    recording = Recording.open(tmp_path / "r")
    assert (recording.steps(), recording.ends[0].status, end.num_steps) == ([], "raised", 0)


@pytest.mark.parametrize(
    ("source", "message"),
    [("def broken(:\n", "does not parse: .* in line 1"), ("x = 1\0\n", "does not parse|not Python")],
)
def test_a_script_that_does_not_parse_is_one_sentence(run, source: str, message: str) -> None:
    with pytest.raises(ScriptError, match=message):
        run(source)


def test_a_plan_comes_back_from_the_environment() -> None:
    plan = RecordPlan(out="r", levels=("op",), values="tensors", steps=(1, 3), force=True, command=("a", "b"))
    assert RecordPlan.from_environment(plan.to_environment()) == plan
    assert RecordPlan.from_environment({}) is None


@pytest.mark.parametrize("text", ["{", "[]", '{"out": "x", "colour": 1}', '{"out": "x", "values": "most"}'])
def test_a_foreign_plan_in_the_environment_is_one_sentence(text: str) -> None:
    with pytest.raises(UsageError):
        RecordPlan.from_environment({"JUMAR_RECORD_PLAN": text})


@pytest.mark.parametrize(
    "fields", [{"levels": ("layer",)}, {"levels": ()}, {"values": "some"}, {"steps": (3, 3)}, {"steps": (-1, 3)}]
)
def test_a_plan_that_breaks_a_rule_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="Try --"):
        RecordPlan(out="r", **fields)


def test_the_number_of_steps_to_stop_after_must_be_a_number() -> None:
    assert stop_after_from({"JUMAR_STOP_AFTER": "4"}) == 4
    with pytest.raises(UsageError, match="must be a number"):
        stop_after_from({"JUMAR_STOP_AFTER": "four"})
