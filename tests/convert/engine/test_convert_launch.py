"""The launch script, run with a stand-in for Python that says how it was called."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from jumar.base.errors import UsageError
from jumar.convert import ConvertOptions
from jumar.convert.engine.launch import FILE_NAME, script
from jumar.convert.model.options import Target

_STAND_IN = """#!/bin/bash
if [[ $1 == -c ]]; then echo "${DEVICES:-}"; exit; fi
printf '%s\\n' "$@"
exit "${CODE:-0}"
"""


def run(folder: Path, *arguments: str, main: str = "main.py", target: Target = "npu", **environment: str):
    (folder / FILE_NAME).write_bytes(script(main, ConvertOptions(target=target)))
    python = folder / "python stand-in"
    python.write_text(_STAND_IN)
    python.chmod(0o755)
    hidden = {"MASTER_ADDR", "MASTER_PORT", "ASCEND_RT_VISIBLE_DEVICES", "NNODES", "NODE_RANK"}
    variables = {name: value for name, value in os.environ.items() if name not in hidden}
    return subprocess.run(
        ["bash", str(folder / FILE_NAME), *arguments], env={**variables, "PYTHON": str(python), **environment},
        capture_output=True, text=True, check=False, cwd="/",
    )  # fmt: skip


def called(folder: Path, *arguments: str, **environment: str) -> list[str]:
    done = run(folder, *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_it_starts_torchrun_with_as_many_processes_as_asked_for_and_the_scripts_own_arguments(tmp_path):
    folder = tmp_path / "a folder's name"
    folder.mkdir()
    found = called(folder, "-n", "4", "--data", "a b", "-n", "$HOME", "")
    expected = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4", "--"]
    assert found == [*expected, f"{folder}/main.py", "--data", "a b", "-n", "$HOME", ""]


@pytest.mark.parametrize("main", ["it's main.py", "tools/a b/$x`y`.py", 'say "hi".py'])
def test_an_entry_script_of_any_name_is_started(tmp_path, main):
    assert called(tmp_path, "-n", "1", main=main)[-1] == f"{tmp_path}/{main}"


def test_without_a_number_the_visible_devices_count_or_those_of_the_machine(tmp_path):
    assert called(tmp_path, "x", ASCEND_RT_VISIBLE_DEVICES="1,3,5")[4] == "3"
    assert called(tmp_path, "x", DEVICES="8")[4] == "8"


@pytest.mark.parametrize("arguments", [("-n",), ("-n", "0"), ("-n", "two"), ("-n", "-1"), ("x",)])
def test_a_number_that_is_none_is_refused_in_one_sentence(tmp_path, arguments):
    done = run(tmp_path, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("The number of devices must be 1 or more; got ")
    assert done.stderr.count("\n") == 1


def test_a_port_and_other_machines_are_taken_from_the_environment(tmp_path):
    one = called(tmp_path, "-n", "2", MASTER_PORT="1234")
    assert one[2:6] == ["--master-addr", "127.0.0.1", "--master-port", "1234"]
    many = called(tmp_path, "-n", "2", MASTER_ADDR="10.0.0.1", MASTER_PORT="1234", NNODES="4", NODE_RANK="2")
    expected = ["--nnodes", "4", "--node-rank", "2", "--master-addr", "10.0.0.1", "--master-port", "1234"]
    assert many[2:10] == expected


def test_it_returns_the_exit_code_of_torchrun(tmp_path):
    assert run(tmp_path, "-n", "2", CODE="7").returncode == 7


def test_the_agnostic_script_names_no_vendor():
    text = script("main.py", ConvertOptions(target="agnostic")).decode()
    assert "torch.accelerator.device_count()" in text
    assert "ASCEND" not in text
    assert "HCCL" not in text


@pytest.mark.parametrize("main", ["/abs/main.py", "../main.py", ""])
def test_an_entry_script_outside_of_the_tree_is_refused(main):
    with pytest.raises(UsageError, match="must be a file below the input"):
        script(main, ConvertOptions())
