"""Errors of kernels and of processes: the line with a reason leads those that only say that something failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jumar.advise.doctor import diagnose_logs
from jumar.advise.doctor.entries.codes import RETURN_CODE, return_codes_in
from jumar.advise.doctor.logs import Incident
from jumar.advise.doctor.logs.clock import time_in
from jumar.advise.doctor.logs.lines.judgement import judged
from jumar.advise.doctor.logs.lines.prefixes import peeled

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
    assert reason in _first(tmp_path, *lines).lead.text
    assert reason in _first(tmp_path, *reversed(lines)).lead.text


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


def test_an_end_by_a_signal_does_not_lead_the_errors_above_it(tmp_path: Path) -> None:
    """What a launcher says of the end of a process is a consequence of what went wrong before."""
    first = _first(
        tmp_path,
        "2026-05-13 02:25:58.641 [error] [hccl_runner.cpp:132] HcclCommInitRootInfo fail, rank:1",
        "Inference server exited with code 137",
    )
    assert "HcclCommInitRootInfo" in first.finding.message


def test_a_traceback_that_is_cut_off_does_not_lead_the_code_beside_it(tmp_path: Path) -> None:
    """Its head tells no reason."""
    first = _first(
        tmp_path,
        "Traceback (most recent call last):",
        "[ERROR] 2025-12-17-09:31:53 (PID:4711, Device:0, RankID:-1) ERR02200 DIST call hccl api failed.",
    )
    assert first.lead.code == "ERR02200"


def test_what_only_a_failure_prints_leads_what_passes_it_on(tmp_path: Path) -> None:
    """A wrapper says less than the linker's own line."""
    first = _first(
        tmp_path,
        "/usr/bin/ld: cannot find -lascendcl: No such file or directory",
        "[ERROR] 2025-12-17-09:31:53 (PID:4711, Device:0, RankID:-1) ERR02200 DIST call hccl api failed.",
    )
    assert "cannot find -lascendcl" in first.finding.message


@pytest.mark.parametrize(
    "line",
    [
        '(APIServer pid=1) INFO:     10.0.0.3:4936 - "POST /v1/chat/completions HTTP/1.1" 503 Service Unavailable',
        "Fail to get sq reg virtual addr, deviceId=0, sqId=93.",
        "E20260608 14:45:44.404292 342420 transport.cpp:836] slice with status: 123902",
    ],
)
def test_answers_of_servers_and_loggers_of_all_forms_are_errors(tmp_path: Path, line: str) -> None:
    """A server's 503, the vendor's `Fail to`, glog with a year."""
    assert _first(tmp_path, line).lead.is_word_only


@pytest.mark.parametrize(
    "line",
    [
        'INFO:     10.0.0.3:4936 - "GET /v1/models HTTP/1.1" 200 OK',
        'INFO:     10.0.0.3:4936 - "GET /ws HTTP/1.1" 101 Switching Protocols',
        "test_broken (test_u.TestErrors.test_broken) ... expected failure",
    ],
)
def test_answers_that_are_no_errors_are_none(tmp_path: Path, line: str) -> None:
    """Nor is a failure that a test expects."""
    path = tmp_path / "server.log"
    path.write_text(f"{line}\n")
    assert diagnose_logs([path]).incidents == ()


def test_a_worker_that_was_killed_or_died_is_no_end_by_sigkill(tmp_path: Path) -> None:
    """Ray does not know which; the doctor does not claim to."""
    first = _first(tmp_path, "A worker died or was killed while executing a task by an unexpected system error.")
    assert "SIGKILL" not in first.finding.why


@pytest.mark.parametrize(
    ("text", "microsecond"), [("58.7", 700000), ("58.70293", 702930), ("58,645", 645000), ("58.383.996", 383996)]
)
def test_fractions_of_seconds_have_any_number_of_digits(text: str, microsecond: int) -> None:
    """A plog writes them as two groups of three."""
    time = time_in(f"[2025-05-13 02:25:{text}] [error] x")
    assert time is not None
    assert time.microsecond == microsecond


def test_a_logger_s_line_above_a_traceback_belongs_to_it(tmp_path: Path) -> None:
    """However long the traceback is, and although its exception is only a consequence."""
    frames = [f'  File "engine.py", line {number}, in step' for number in range(40)]
    first = _first(
        tmp_path,
        "2025-03-27 08:10:44,912 - lmdeploy - ERROR - engine.py:1088 - Engine main loop failed.",
        "Traceback (most recent call last):",
        *frames,
        "RuntimeError: ACL stream synchronize failed, error code:507048",
    )
    assert first.lead.code == "507048"


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("CANN failure 100002: ACL_ERROR_REPEAT_INITIALIZE ; NPU=0 ; expr=aclInit(nullptr);", "100002"),
        ("RuntimeError: aclnnFooGetWorkspaceSize failed with aclnnStatus=561002.", "561002"),
    ],
)
def test_doctor_reads_the_number_that_a_library_returns(line: str, number: str) -> None:
    found = RETURN_CODE.search(line)
    assert found is not None
    assert found[1] == number


def test_doctor_names_the_small_result_of_a_call_of_hccl() -> None:
    line = (
        "[ERROR] HCCL(4711,python3):2026-03-18-10:34:43.142.145 [a.cc:2858] [4712][AllReduce]call trace: hcclRet -> 4"
    )
    assert "HCCL_E_INTERNAL" in return_codes_in(line)


@pytest.mark.parametrize(
    "line",
    [
        "  replay      Execute recorded operators again: own error, reference's,",
        "e430e616 jumar doctor --follow: new errors as they come, through rotation and truncation",
        "ii  libcom-err2:amd64    1.47.0-2    amd64    common error description library",
        "# HELP http_requests_failed_total Number of http requests failed total",
        "tests/test_a.py::test_a_missing_module[No module named 'torch_npu'-torch-npu-missing] PASSED [ 21%]",
        "fbfdd5b3 Exception groups are read; boxes of tracebacks belong to the exception below them",
    ],
)
def test_doctor_is_quiet_about_help_lists_and_tests_that_passed(tmp_path: Path, line: str) -> None:
    path = tmp_path / "train.log"
    path.write_text(f"{line}\n")
    assert diagnose_logs([path]).first is None


@pytest.mark.parametrize(
    "line", ["  worker      Error: out of space", "  message     Training failed", "3f2a9c1d0 error: device lost"]
)
def test_doctor_hears_an_error_behind_a_name(tmp_path: Path, line: str) -> None:
    assert _first(tmp_path, line).hits[0].line == 1


def test_doctor_leads_with_the_lost_connection_rather_than_the_rank_that_the_launcher_ended(tmp_path: Path) -> None:
    first = _first(
        tmp_path,
        "[rank0]: RuntimeError: pair.cc:553] Connection closed by peer [127.0.0.1]:5041.",
        "E1128 17:20:47.067000 16765 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 3) "
        "local_rank: 1 (pid: 16768) of binary: /opt/venv/bin/python",
        "Failures:",
        "  exitcode  : -15 (pid: 16767)  (SIGTERM)",
        "Root Cause (first observed failure):",
        "  exitcode  : 3 (pid: 16768)",
    )
    assert first.hits[0].line == 1


@pytest.mark.parametrize(("line", "weight"), [("exitcode: -9", 3), ("exitcode: -15", 4), ("exitcode  : 3 (pid: 1)", 4)])
def test_doctor_takes_an_end_by_sigterm_for_no_reason(line: str, weight: int) -> None:
    found = judged(peeled(line))
    assert found is not None
    assert found.weight == weight


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "program-reference",
            ("a.cpp:(.text+0xa): undefined reference to `aclInit'", "collect2: error: ld returned 1"),
        ),
        (
            "program-cmake-package",
            (
                "CMake Error at CMakeLists.txt:3 (find_package):",
                '  By not providing "FindASC.cmake" in CMAKE_MODULE_PATH this project has',
                '  asked CMake to find a package configuration file provided by "ASC", but',
            ),
        ),
        (
            "program-hivm",
            (
                "///------------------[ERROR][Triton][BEG]------------------",
                "[ConvertLinalgRToBinary] encounters error:",
                'loc("/tmp/a/kernel.ttadapter.mlir":1:1): error: Failed to run BiShengHIR pipeline',
            ),
        ),
        (
            "triton-target",
            (
                "triton.compiler.errors.MLIRCompilationError: ",
                "///------------------[ERROR][Triton][BEG]------------------",
                "bishengir-compile: for the --target option: Cannot find option named 'Ascend910B4-1'!",
                "[2026-01-04 01:51:58] Received sigquit from a child process. It usually means the child failed.",
            ),
        ),
        (
            "program-ray-actor",
            (
                "ray.train.base_trainer.TrainingFailedError: The Ray Train run failed.",
                "    The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR",
            ),
        ),
        (
            "program-hook",
            (
                "Error response from daemon: OCI runtime create failed: error running prestart hook #0",
                "failed to mount src: /usr/local/bin/npu-smi.failed to mount dev.",
            ),
        ),
    ],
)
def test_doctor_leads_with_the_entry_of_the_reason(tmp_path: Path, name: str, lines: tuple[str, ...]) -> None:
    signature = _first(tmp_path, *lines).lead.signature
    assert signature is not None
    assert signature.name == name
