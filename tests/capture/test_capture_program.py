"""What a command line starts: scripts, modules, launchers, shell scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.base.errors import ScriptError, UsageError
from jumar.capture.process.program import Program, parse_program

TORCHRUN = "torch.distributed.run"


@pytest.mark.parametrize(
    ("words", "kind", "name", "arguments"),
    [
        (["train.py", "--lr", "1"], "script", "train.py", ("--lr", "1")),
        (["python", "-u", "-B", "train.py"], "script", "train.py", ()),
        (["/usr/bin/python3.11", "train.py", "-m", "x"], "script", "train.py", ("-m", "x")),
        (["-m", "package.train", "-x"], "module", "package.train", ("-x",)),
        (["python3", "-m", "package.train"], "module", "package.train", ()),
        (["bash", "train.sh", "8"], "shell", "train.sh", ("8",)),
        (["./train.sh"], "shell", "./train.sh", ()),
        (["accelerate.py", "launch"], "script", "accelerate.py", ("launch",)),
    ],
)
def test_a_program_is_read_from_its_words(words, kind, name, arguments) -> None:
    found = parse_program(words)
    assert (found.kind, found.name, found.arguments, found.launcher) == (kind, name, arguments, "")
    assert found.inner is found


@pytest.mark.slow
@pytest.mark.parametrize(
    "start",
    [
        ["torchrun"],
        ["/opt/bin/torchrun"],
        ["python", "-m", TORCHRUN],
        ["-m", TORCHRUN],
        ["-m", "torch.distributed.launch"],
    ],
)
@pytest.mark.parametrize(
    ("options", "kind", "name", "arguments"),
    [
        (
            ["--nproc-per-node", "2", "train.py", "--nproc-per-node", "9"],
            "script",
            "train.py",
            ("--nproc-per-node", "9"),
        ),
        (["--standalone", "--nproc_per_node=2", "a/train.py"], "script", "a/train.py", ()),
        (["--nnodes=1", "-m", "package.train", "train.py"], "module", "package.train", ("train.py",)),
    ],
)
def test_a_launcher_names_what_its_processes_run(start, options, kind, name, arguments) -> None:
    found = parse_program([*start, *options])
    assert (found.kind, bool(found.launcher), found.arguments) == ("module", True, tuple(options))
    assert found.launched == Program(kind=kind, name=name, arguments=arguments)
    assert found.arguments[found.launched_at] == name
    moved = found.with_entries(lambda path: Path("/mirror") / path)
    assert moved.inner.name == (f"/mirror/{name}" if kind == "script" else name)
    assert moved.words[-len(arguments) - 1 :] == (moved.inner.name, *arguments)


def test_a_file_that_a_shell_runs_is_a_shell_script(tmp_path: Path) -> None:
    script = tmp_path / "train"
    script.write_text("#!/usr/bin/env bash\npython tools/train.py --epochs 1\npython missing.py\n")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "train.py").touch()
    found = parse_program([str(script)])
    assert found.kind == "shell"
    assert found.entries == (tmp_path / "tools" / "train.py",)


def test_a_module_is_the_file_that_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pkg_of_program/__init__.py", "pkg_of_program/__main__.py", "pkg_of_program/train.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / "pkg_of_program"
    assert parse_program(["-m", "pkg_of_program"]).entries == (folder / "__main__.py",)
    assert parse_program(["-m", "pkg_of_program.train"]).entries == (folder / "train.py",)
    with pytest.raises(ScriptError, match="no module pkg_of_program"):
        parse_program(["-m", "pkg_of_program.other"]).entries  # noqa: B018


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no script is named"),
        (["python"], "no script is named"),
        (["-m"], "-m names no module"),
        (["bash"], "followed by a shell script"),
        (["bash", "-c", "echo"], "followed by a shell script; got -c echo"),
        (["python", "-i", "train.py"], "does not take -i"),
        (["torchrun", "--standalone"], "torchrun refuses its options: the following arguments are required"),
        (["torchrun", "--no-such-option", "train.py"], "torchrun"),
    ],
)
def test_what_starts_nothing_is_refused_in_a_sentence(words, said) -> None:
    with pytest.raises(UsageError, match=said):
        parse_program(words)


def test_a_launcher_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ScriptError, match="deepspeed is not installed here"):
        parse_program(["deepspeed", "train.py"])
