"""What launchers and loggers put before a line changes no diagnosis; who printed a line is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lines_of_logs import CLEAN, ERRORS

from jumar.advise.doctor import diagnose_logs
from jumar.advise.doctor.logs.lines.judgement import judged
from jumar.advise.doctor.logs.lines.prefixes import peeled

WRITERS: dict[str, tuple[str, str, int | None]] = {
    "torchrun": ("[rank3]: ", "rank3", 3),
    "torchrun-default": ("[default0]:", "default0", 0),
    "torchrun-role": ("[trainer2]:", "trainer2", 2),
    "ray": ("(train pid=123, ip=10.0.0.3) ", "train pid=123, ip=10.0.0.3", None),
    "ray-method": ("(WorkerDict pid=4711) ", "WorkerDict pid=4711", None),
    "raylet": ("(raylet, ip=10.0.0.3) ", "raylet, ip=10.0.0.3", None),
    "vllm-engine": ("(EngineCore_DP0 pid=71) ", "EngineCore_DP0 pid=71", None),
    "vllm-worker": ("(Worker_TP1 pid=416) ", "Worker_TP1 pid=416", 1),
    "vllm-old-worker": ("(VllmWorker TP1 pid=961) ", "VllmWorker TP1 pid=961", 1),
    "vllm-server": ("(APIServer pid=1) ", "APIServer pid=1", None),
    "mpirun": ("[1,3]<stderr>:", "3", 3),
    "srun": ("12: ", "12", 12),
    "srun-padded": ("  7: ", "7", 7),
    "compose": ("trainer-1  | ", "trainer-1", None),
    "kubectl": ("[pod/train-0/worker] ", "pod/train-0/worker", None),
    "journald": ("Jan 02 03:04:05 node7 python[4711]: ", "node7 python[4711]", None),
    "journald-iso": ("2025-01-02T03:04:05+0000 node7 python[4711]: ", "node7 python[4711]", None),
}
CLOCKS = {
    "kubernetes": "2025-01-02T03:04:05.123456789Z ",
    "cri": "2025-01-02T03:04:05.123456789Z stderr F ",
    "logging": "2025-01-02 03:04:05,123 ",
    "brackets": "[2025-01-02 03:04:05,123] ",
    "dmesg": "[519308.099433] ",
    "american": "05/17/2024 21:03:59 ",
}
LOGGERS = {
    "vllm": "ERROR 11-12 10:00:00 [core.py:68] ",
    "vllm-old": "ERROR 11-12 10:00:00 core.py:68] ",
    "logging": "2025-01-02 03:04:05,123 - trainer - ERROR - ",
    "loguru": "2025-01-02 03:04:05.123 | ERROR    | app.run:main:12 - ",
    "airflow": "[2025-01-02T03:04:05.123+0000] {subprocess.py:93} INFO - ",
    "transformers": "[ERROR|trainer.py:2314] 2024-12-01 10:00:00,123 >> ",
    "deepspeed": "[2024-01-01 10:00:00,123] [ERROR] [launch.py:325:main] ",
    "basic": "ERROR:root:",
    "hydra": "[2024-11-28 11:59:30,645][app.main][ERROR] - ",
    "glog": "E0512 10:00:00.123456 123 file.cc:88] ",
    "zap": "2024-11-28T11:59:30.645Z\tERROR\t",
}
TRACEBACK = """Traceback (most recent call last):
  File "/home/me/train.py", line 41, in <module>
    main()
  File "/home/me/train.py", line 12, in main
    cfg['lr']
    ~~~^^^^^^
KeyError: 'lr'
"""
NPU = """Traceback (most recent call last):
  File "/home/me/train.py", line 41, in <module>
    x.cpu()
RuntimeError: run:torch_npu.dir/compiler_depend.ts:25 NPU function error: call aclnnAdd failed, error code is 507015
[ERROR] 2025-04-29-18:46:11 (PID:1066924, Device:1, RankID:-1) ERR00100 PTA call acl api failed
[Error]: The aicore execution is abnormal.
        Rectify the fault based on the error information in the ascend log.
EZ9999: Inner Error!
EZ9999: [PID: 1066924] 2025-04-29-18:46:11.501.863 The error from device(chipId:2, dieId:0), serial number is 13
"""
RANKTABLE = "EI0004: [PID: 1] 2025-04-29-18:46:11.501.863 The ranktable is invalid.\n"
PLOG = "[ERROR] RUNTIME(12,python3):2025-04-29-18:46:11.475.679 [x.cc:1]12 Strange: the pump stopped\n"
BODIES = [TRACEBACK, NPU, RANKTABLE, PLOG, "Segmentation fault (core dumped)\n", "the worker crashed\n"]


def told(text: str, log: Path) -> list[tuple[str, str, int | None, object]]:
    log.write_text(text)
    findings = diagnose_logs([log]).findings
    return [(one.code, one.message, one.where.line, one.evidence.get("raised_at")) for one in findings]


def put_before(prefix: str, text: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in ["step 1", *text.splitlines(), "bye"])


prefixes = st.lists(st.sampled_from([one[0] for one in WRITERS.values()] + list(CLOCKS.values())), max_size=4).map(
    "".join
)


@given(prefix=prefixes, body=st.sampled_from(BODIES))
@settings(max_examples=60, deadline=None)
def test_prefixes_in_any_order_change_no_diagnosis(
    tmp_path_factory: pytest.TempPathFactory, prefix: str, body: str
) -> None:
    log = tmp_path_factory.mktemp("prefixes") / "a.log"
    assert told(put_before(prefix, body), log) == told(put_before("", body), log)


@pytest.mark.parametrize("logger", LOGGERS)
@pytest.mark.parametrize("body", [TRACEBACK, NPU], ids=["traceback", "npu"])
def test_a_logger_before_every_line_changes_no_diagnosis(logger: str, body: str, tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    said = "".join(f"{LOGGERS[logger]}{line}\n" for line in body.splitlines())
    assert told(said, log) == told(body, log)


@pytest.mark.parametrize("kind", WRITERS)
def test_the_writer_is_kept(kind: str, tmp_path: Path) -> None:
    prefix, writer, rank = WRITERS[kind]
    log = tmp_path / "a.log"
    log.write_text(put_before(prefix, TRACEBACK))
    (finding,) = diagnose_logs([log]).findings
    assert (finding.evidence["writer"], finding.where.rank) == (writer, rank)


@given(
    st.permutations(["[rank0]: ", "[rank1]: ", "(train pid=123, ip=10.0.0.3) ", "trainer-1  | "]),
    st.randoms(use_true_random=False),
)
@settings(max_examples=20, deadline=None)
def test_every_writer_of_one_file_keeps_its_traceback(tmp_path_factory, writers, random) -> None:  # type: ignore[no-untyped-def]
    log = tmp_path_factory.mktemp("interleaved") / "a.log"
    texts = {prefix: TRACEBACK.replace("'lr'", f"'{'abcd'[at]}'").splitlines() for at, prefix in enumerate(writers)}
    turns = [prefix for prefix in writers for _ in texts[prefix]]
    random.shuffle(turns)
    iterators: dict[str, Callable[[], str]] = {prefix: iter(lines).__next__ for prefix, lines in texts.items()}
    log.write_text("".join(f"{prefix}{iterators[prefix]()}\n" for prefix in turns))
    incidents = diagnose_logs([log]).incidents
    expected = {peeled(prefix + "x").writer: f"KeyError: '{'abcd'[at]}'." for at, prefix in enumerate(writers)}
    assert {one.lead.writer: one.finding.message for one in incidents} == expected


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("ERROR 11-12 10:00:00 [core.py:68] x", "error"),
        ("(APIServer pid=1) INFO 11-12 10:00:00 [api.py:3] x", "info"),
        ("W0102 03:04:05.123000 4711 torch/distributed/run.py:793] x", "warning"),
        ("[W1226 15:35:11.626067741 socket.cpp:752] [c10d] x", "warning"),
        ("E0000 00:00:1744708234.717753 1370911 cuda_dnn.cc:8579] x", "error"),
        ("[ERROR] GE(12,python):2024-01-01-10:00:00.123.456 [a.cc:1]2 x", "error"),
        ("[EVENT] GE(12,python):2024-01-01-10:00:00.123.456 [a.cc:1]2 x", "info"),
        ("ts=2024-01-01T10:00:00Z caller=main.go:3 level=warn msg=x", "warning"),
        ("n45:2527565:2527565 [0] NCCL INFO x", "info"),
        ("03-17 16:15:03.502  1702  2639 W ActivityManager: x", "warning"),
        ("081109 214043 2561 WARN dfs.DataNode: x", "warning"),
        ("epoch 3 ERROR x", ""),
        ("EZ9999: Inner Error!", ""),
    ],
)
def test_the_level_of_a_logger_is_read(line: str, level: str) -> None:
    assert peeled(line).level == level


@given(st.text(st.sampled_from("[]()<>{}|:-0123456789 EWrankpidT\t"), max_size=80))
def test_peeling_takes_only_a_beginning_off(line: str) -> None:
    said = peeled(line)
    assert line.endswith(said.text)
    assert said.line.endswith(said.text)


@pytest.mark.parametrize("prefix", ["[rank3]: ", "(train pid=1, ip=10.0.0.3) ", "trainer-1  | ", CLOCKS["cri"]])
def test_a_prefix_makes_no_line_an_error_and_none_harmless(prefix: str) -> None:
    lines = [line for line in [*ERRORS, *CLEAN] if not line.startswith("{")]
    wrong = [line for line in lines if judged(peeled(prefix + line)) != judged(peeled(line))]
    assert wrong == []
