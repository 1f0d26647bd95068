"""`jumar doctor` and `jumar export` on the command line: the answer first, JSON alone on stdout, exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import jumar.advise.doctor
from jumar.advise.checks import finders
from jumar.advise.doctor.machine.host import Host, Package, Python
from jumar.base.findings import Finding
from jumar.cli import main as cli

LAPTOP = Host(python=Python(version="3.11.7", torch=Package(installed=True, version="2.13.0")))
LOG = "2024-11-28 11:50:00,000 step 1\nKilled\nRuntimeError: NPU out of memory. Tried to allocate 2.00 GiB\n"


@pytest.fixture(autouse=True)
def commands(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("doctor", "export"):
        monkeypatch.setitem(cli.COMMANDS, name, "")


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch):
    def plant(**environ: str) -> None:
        monkeypatch.setattr(jumar.advise.doctor, "survey", lambda: replace(LAPTOP, environ=environ))

    return plant


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = cli.main([str(argument) for argument in arguments])
    output = capsys.readouterr()
    return code, output.out, output.err


def test_the_device_and_the_reason_come_first(host, capsys):
    host()
    code, out, _ = run(capsys, "doctor")
    assert code == 0
    assert out.splitlines()[0].strip() == ("✓ Fine: Jumar uses its emulated NPU, because torch_npu is not installed.")
    assert "could not be made here" in out
    assert len(out.splitlines()) <= 40


def test_a_planted_fault_is_an_action_and_an_exit_code(host, capsys):
    host(ASCEND_RT_VISIBLE_DEVICES="1,0", CUDA_VISIBLE_DEVICES="0")
    code, out, _ = run(capsys, "doctor")
    assert (code, "export ASCEND_RT_VISIBLE_DEVICES=0,1" in out) == (1, True)
    assert run(capsys, "doctor", "--fail-on", "never")[0] == 0
    host(CUDA_VISIBLE_DEVICES="0")
    assert [run(capsys, "doctor", "--fail-on", level)[0] for level in ("error", "advice")] == [0, 1]


def test_the_environment_as_json(host, capsys):
    host(ASCEND_LAUNCH_BLOCKING="1")
    _, out, _ = run(capsys, "doctor", "--json")
    document = json.loads(out)
    (finding,) = [Finding.from_json(item) for item in document["findings"]]
    assert (finding.code, document["facts"]["torch"]) == ("JM808", "2.13.0")
    assert {item["code"] for item in document["not_checked"]} >= {"JM803", "JM812"}
    assert {tuple(item) for item in document["not_checked"]} == {("code", "name", "reason")}
    num_checks, gaps = len(finders("advise.doctor")), {item["code"] for item in document["not_checked"]}
    assert num_checks - len(gaps) <= document["num_checked"] < num_checks  # what was checked in part is in both


def test_logs_name_the_first_error(tmp_path, capsys):
    (tmp_path / "rank0.log").write_text(LOG)
    code, out, err = run(capsys, "doctor", tmp_path)
    assert code == 1
    assert "The first error: The NPU's memory is used up" in out.splitlines()[0]
    assert "rank0.log:3" in "".join(out.split("\n"))
    assert "Traceback" not in err


def test_logs_without_an_error_are_not_called_proof(tmp_path, capsys):
    (tmp_path / "a.log").write_text("fine\n")
    code, out, _ = run(capsys, "doctor", tmp_path / "a.log")
    assert (code, "does not prove" in out) == (0, True)


def test_logs_as_json(tmp_path, capsys):
    (tmp_path / "rank0.log").write_text(LOG)
    code, out, _ = run(capsys, "doctor", "--json", "--fail-on", "never", tmp_path / "rank0.log")
    document = json.loads(out)
    assert (code, document["first"]["code"], document["files"][0]["num_lines"]) == (0, "JM850", 3)
    assert document["first"] == document["findings"][0]


@pytest.mark.parametrize("arguments", [["doctor", "no.log"], ["doctor", "--fail-on", "x"], ["export"], ["export", "x"]])
def test_wrong_use_is_exit_code_2(arguments, capsys):
    code, out, err = run(capsys, *arguments)
    assert (code, out, "Traceback" in err) == (2, "", False)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    torch.save({"model": {"module.w": torch.tensor([1.0, 1e6])}, "epoch": 1}, tmp_path / "in.pth")
    return tmp_path / "in.pth"


def test_an_export_says_what_it_did(checkpoint, tmp_path, capsys):
    code, out, _ = run(capsys, "export", "checkpoint", checkpoint, tmp_path / "out.pt")
    assert code == 0
    assert "read back and equal bit by bit" in out
    assert "prefix module. taken from 1 of 1 keys" in out
    assert "left behind: epoch" in out
    assert list(torch.load(tmp_path / "out.pt", weights_only=True)) == ["w"]


def test_the_prefix_can_be_kept_or_chosen(checkpoint, tmp_path, capsys):
    run(capsys, "export", "checkpoint", checkpoint, tmp_path / "a.pt", "--keep-prefix")
    run(capsys, "export", "checkpoint", checkpoint, tmp_path / "b.pt", "--strip-prefix", "module.w")
    run(capsys, "export", "checkpoint", checkpoint, tmp_path / "c.pt", "--strip-prefix", "mod")
    names = [list(torch.load(tmp_path / f"{name}.pt", weights_only=True)) for name in "abc"]
    assert names == [["module.w"], ["module.w"], ["ule.w"]]
    both = ["--keep-prefix", "--strip-prefix", "x"]
    assert run(capsys, "export", "checkpoint", checkpoint, tmp_path / "d.pt", *both)[0] == 2


def test_values_lost_to_the_dtype_are_a_finding(checkpoint, tmp_path, capsys):
    arguments = ["export", "checkpoint", checkpoint, tmp_path / "out.pt", "--dtype", "fp16", "--force"]
    assert run(capsys, *arguments)[0] == 0
    assert run(capsys, *arguments, "--fail-on", "warning")[0] == 1
    _code, out, _ = run(capsys, *arguments, "--json")
    document = json.loads(out)
    assert (document["findings"][0]["code"], document["num_by_dtype"]) == ("JM701", {"float16": 1})


def test_an_existing_file_stays(checkpoint, tmp_path, capsys):
    (tmp_path / "out.pt").write_text("mine")
    code, _, err = run(capsys, "export", "checkpoint", checkpoint, tmp_path / "out.pt")
    assert (code, "--force" in err, (tmp_path / "out.pt").read_text()) == (2, True, "mine")


def test_onnx_with_a_wrong_factory_is_one_sentence(tmp_path, capsys):
    code, _, err = run(capsys, "export", "onnx", "nonsense", tmp_path / "m.onnx")
    assert (code, len(err.strip().splitlines())) == (2, 1)
