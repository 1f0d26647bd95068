"""The files for other tools: the action, the hook, the image, the problem matcher."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jumar.cli.main import main

ROOT = Path(__file__).parents[2]
MATCHER = json.loads((ROOT / "integrations" / "jumar-problem-matcher.json").read_text("utf-8"))["problemMatcher"][0]
TASKS = json.loads((ROOT / "integrations" / "vscode-tasks.json").read_text("utf-8"))["tasks"]


def yaml_of(name: str) -> Any:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a b.py").write_text("import torch\nx = torch.ones(2).cuda()\n")
    (tmp_path / "clean.py").write_text("import torch\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- the action


def test_the_action_has_the_keys_of_a_composite_action() -> None:
    action = yaml_of("action.yml")
    assert {"name", "description", "inputs", "outputs", "runs"} <= action.keys()
    assert action["runs"]["using"] == "composite"
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash"  # a composite action must say it
        for value in step.get("env", {}).values():
            name = re.fullmatch(r"\$\{\{ inputs\.(\w+) \}\}", value)
            assert name is not None, "inputs reach the shell through the environment, never as text of the program"
            assert name[1] in action["inputs"]
        assert "${{" not in step["run"]
    assert all({"description", "required", "default"} <= one.keys() for one in action["inputs"].values())


def run_check(project: Path, **given: str) -> tuple[int, str, str]:
    step = next(one for one in yaml_of("action.yml")["runs"]["steps"] if one.get("id") == "check")
    inputs = {name: one["default"] for name, one in yaml_of("action.yml")["inputs"].items()} | given
    environment = {name: inputs[value.split(".")[1].split()[0]] for name, value in step["env"].items()}
    output = project / "github-output"
    output.touch()
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=project,
        env={**os.environ, **environment, "PATH": path, "GITHUB_OUTPUT": str(output)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr, output.read_text()


@pytest.mark.slow
def test_the_action_fails_on_a_new_use_and_writes_sarif(project: Path) -> None:
    code, said, output = run_check(project, paths="src\nclean.py")
    assert code == 1, said
    assert "1 new use of CUDA in 2 files" in said
    assert output == "sarif=cuda-uses.sarif\n"
    assert json.loads((project / "cuda-uses.sarif").read_text())["runs"][0]["results"]


@pytest.mark.slow
def test_the_action_passes_known_uses_and_paths_with_blanks(project: Path) -> None:
    assert main(["convert", "--check", "--baseline", "known.txt", "--write-baseline", "src"]) == 0
    code, said, output = run_check(project, paths="src/a b.py", baseline="known.txt", sarif="", args="--jobs 1")
    assert code == 0, said
    assert output == ""


# --- the hook


def test_the_hook_is_a_command_that_takes_file_names(project: Path) -> None:
    (hook,) = yaml_of(".pre-commit-hooks.yaml")
    assert {"id", "name", "entry", "language"} <= hook.keys()
    assert hook["language"] == "python"
    words = hook["entry"].split()
    assert words[0] == "jumar"
    assert main([*words[1:], "clean.py", "src/a b.py"]) == 1
    assert main([*words[1:], "clean.py"]) == 0


# --- the image


def test_the_image_is_pinned_runs_as_a_user_and_copies_what_is_there() -> None:
    lines = [line for line in (ROOT / "Dockerfile").read_text("utf-8").splitlines() if not line.startswith("#")]
    bases = [line.split()[1] for line in lines if line.startswith("FROM")]
    assert all(":" in base and not base.endswith(":latest") for base in bases)
    assert [line for line in lines if line.startswith("USER")] == ["USER jumar"]
    assert lines[-2:] == ['ENTRYPOINT ["jumar"]', 'CMD ["--help"]']
    for line in lines:
        if line.startswith("COPY") and "--from" not in line:
            assert all((ROOT / name).exists() for name in line.split()[1:-1])
        assert not line.startswith("ADD"), "COPY unpacks nothing by surprise"
    text = "\n".join(lines)
    assert "--no-install-recommends" in text
    assert "rm -rf /var/lib/apt/lists/*" in text
    assert text.count("pip install") == text.count("--no-cache-dir")


# --- editors


def test_the_problem_matcher_reads_what_the_check_prints(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "--check", "-i", "src"]) == 1
    first, second = (re.compile(one["regexp"]) for one in MATCHER["pattern"])
    lines = capsys.readouterr().out.splitlines()
    at = next(index for index, line in enumerate(lines) if first.search(line))
    found = first.search(lines[at])
    place = second.search(lines[at + 1])
    assert found is not None
    assert place is not None
    assert found.group(1, 2) == ("warning", "JM103")
    assert place.group(1, 2) == ("a b.py", "2")


def test_the_tasks_use_the_same_matcher_and_options_that_exist() -> None:
    (check,) = [task for task in TASKS if isinstance(task["problemMatcher"], dict)]
    assert check["problemMatcher"]["pattern"] == MATCHER["pattern"]
    for task in TASKS:
        assert task["command"] == "jumar"
        assert main([task["args"][0], "--help"]) == 0
