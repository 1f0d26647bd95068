"""Errors of kernels and of processes: the line with a reason leads those that only say that something failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jumar.advise.doctor import diagnose_logs
from jumar.advise.doctor.logs import Incident

_CORE = (
    "[rank3]:[W1031 21:35:04.838006795 compiler_depend.ts:57] Warning: EZ9999: Inner Error!",
    "EZ9999: [PID: 4711] 2025-10-31-21:35:03.992.057 The error from device(chipId:7, dieId:0), serial number is 2, "
    "there is an exception of aivec error, core id is 9, error code = 0",
)
_ADDRESS = (
    "The extend info: errcode:(0, 0x2, 0) errorStr: The MPU address access is invalid. fixp_error0 info: 0xa0bfbd5"
)


def _first(folder: Path, *lines: str) -> Incident:
    path = folder / "train.log"
    path.write_text("\n".join(lines) + "\n")
    first = diagnose_logs([path]).first
    assert first is not None
    return first


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("terminate called after throwing an instance of 'std::runtime_error'", "  what():  too big"), "too big"),
        (
            ("-- Configuring incomplete, errors occurred!", "CMake Error at CMakeLists.txt:3 (find_package):"),
            "CMake Error at",
        ),
        (
            ("collect2: error: ld returned 1 exit status", "k.o: undefined reference to `aclInit'"),
            "undefined reference",
        ),
        (
            (
                "python: can't open file 'tran.py': [Errno 2] No such file or directory",
                "E1128 17:21:55.922000 18175 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
                "(exitcode: 2) local_rank: 0 (pid: 18205) of binary: python",
            ),
            "can't open file",
        ),
    ],
)
def test_a_line_with_a_reason_leads_one_that_only_says_that_something_failed(
    tmp_path: Path, lines: tuple[str, ...], reason: str
) -> None:
    """In whatever order they were printed."""
    assert reason in _first(tmp_path, *lines).finding.message
    assert reason in _first(tmp_path, *reversed(lines)).finding.message


def test_an_end_by_a_signal_is_a_reason(tmp_path: Path) -> None:
    """`Killed` and exit code 137 say why, an exit code of 1 does not."""
    first = _first(tmp_path, "worker 3 exited with code 1", "Inference server exited with code 137")
    assert "137" in first.finding.message


def test_a_writer_that_is_told_less_exactly_is_the_same_writer(tmp_path: Path) -> None:
    """The rank stands on the first line of a message only; Ray's prefix stands on every line."""
    lines = [f"(train pid=1) {line}" for line in (*_CORE, _ADDRESS)]
    first = _first(tmp_path, *lines)
    assert first.lead.signature is not None
    assert first.lead.signature.name == "kernel-address"


def test_what_the_core_reports_leads_the_report_of_its_failure(tmp_path: Path) -> None:
    """The address is the cause, the failed kernel the symptom, EZ9999 a wrapper."""
    failed, told = _first(tmp_path, *_CORE), _first(tmp_path, *_CORE, _ADDRESS)
    assert failed.lead.signature is not None
    assert told.lead.signature is not None
    assert [failed.lead.signature.name, told.lead.signature.name] == ["kernel-exception", "kernel-address"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("ModuleNotFoundError: No module named 'dlinfer'", "module-missing"),
        ("ModuleNotFoundError: No module named 'vllm_ascend.attention'", "module-part-missing"),
        ("ModuleNotFoundError: No module named 'torch_npu'", "torch-npu-missing"),
    ],
)
def test_a_missing_module_is_a_package_or_a_part_of_one(tmp_path: Path, line: str, name: str) -> None:
    """Packages that the table knows by name keep their own entry."""
    lead = _first(tmp_path, "Traceback (most recent call last):", '  File "a.py", line 1, in <module>', line).lead
    assert lead.signature is not None
    assert lead.signature.name == name


def test_an_import_that_a_program_does_without_is_no_error(tmp_path: Path) -> None:
    """vLLM reports the optional module in a warning."""
    path = tmp_path / "serve.log"
    path.write_text(
        "WARNING 11-17 11:40:00 [_custom_ops.py:20] Failed to import from vllm._C with "
        "ModuleNotFoundError(\"No module named 'vllm._C'\")\n"
    )
    assert diagnose_logs([path]).first is None


def test_lines_in_json_have_one_clock(tmp_path: Path) -> None:
    """A container's time is UTC, the time in the text is local: eight hours between them part no incident."""
    lines = [
        json.dumps({"log": f"{line}\n", "stream": "stderr", "time": f"2025-10-31T13:35:0{second}.123456789Z"})
        for second, line in enumerate(
            (*_CORE, _ADDRESS, "RuntimeError: ACL stream synchronize failed, error code:507035")
        )
    ]
    path = tmp_path / "train-json.log"
    path.write_text("\n".join(lines) + "\n")
    assert len(diagnose_logs([path]).incidents) == 1
