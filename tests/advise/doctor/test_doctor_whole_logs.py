"""Whole logs of launchers, containers and services: the failure is found, and whose it is; clean ones are clean."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.advise.doctor import diagnose_logs
from jumar.base.findings import Severity

LOGS = {
    "deepspeed-pdsh": (
        "worker-1: Traceback (most recent call last):\n"
        "worker-0: [2024-05-01 10:00:00,123] [INFO] [comm.py:637:init_distributed] cdb=None\n"
        'worker-1:   File "train.py", line 12, in <module>\n'
        "worker-0: [2024-05-01 10:00:01,123] [INFO] [comm.py:637:init_distributed] ok\n"
        "worker-1:     main()\n"
        "worker-1: ValueError: bad batch\n"
        "worker-0: [2024-05-01 10:00:05,123] [INFO] [launch.py:316:sigkill_handler] Killing subprocess 12\n"
    ),
    "accelerate": (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/x/train.py", line 5, in <module>\n'
        "[rank1]:     model = load()\n"
        "[rank1]: FileNotFoundError: [Errno 2] No such file or directory: 'model.bin'\n"
        "W0102 03:04:05.000 12 site-packages/torch/distributed/elastic/multiprocessing/api.py:897] Sending "
        "process 13 closing signal SIGTERM\n"
        "E0102 03:04:06.000 12 site-packages/torch/distributed/elastic/multiprocessing/api.py:869] failed "
        "(exitcode: 1) local_rank: 1 (pid: 14) of binary: /usr/bin/python\n"
    ),
    "docker-json": (
        '{"log":"Traceback (most recent call last):\\n","stream":"stderr","time":"2025-01-02T03:04:05.1Z"}\n'
        '{"log":"  File \\"a.py\\", line 3, in \\u003cmodule\\u003e\\n","stream":"stderr","time":"2025-01-02'
        'T03:04:05.1Z"}\n'
        '{"log":"    x()\\n","stream":"stderr","time":"2025-01-02T03:04:05.1Z"}\n'
        '{"log":"TypeError: x\\n","stream":"stderr","time":"2025-01-02T03:04:05.1Z"}\n'
    ),
    "fluentd": (
        '2025-01-02T03:04:05+00:00\tkube.train\t{"stream":"stderr","log":"RuntimeError: NPU out of memory. Tried '
        'to allocate 2.00 GiB","kubernetes":{"pod_name":"train-0"}}\n'
    ),
    "tqdm": (
        " 10%|█         | 1/10 [00:01<00:09]\r"
        " 20%|██        | 2/10 [00:02<00:08]Traceback (most recent call last):\n"
        '  File "a.py", line 3, in <module>\n'
        "    x()\n"
        "TypeError: x\n"
        " 20%|██        | 2/10 [00:02<00:08]\n"
    ),
    "airflow": (
        "[2025-01-02T03:04:05.123+0000] {subprocess.py:93} INFO - Traceback (most recent call last):\n"
        '[2025-01-02T03:04:05.123+0000] {subprocess.py:93} INFO -   File "/x/a.py", line 3, in <module>\n'
        "[2025-01-02T03:04:05.123+0000] {subprocess.py:93} INFO -     main()\n"
        "[2025-01-02T03:04:05.123+0000] {subprocess.py:93} INFO - KeyError: 'lr'\n"
        "[2025-01-02T03:04:05.200+0000] {subprocess.py:97} INFO - Command exited with return code 1\n"
        "[2025-01-02T03:04:05.300+0000] {taskinstance.py:1824} ERROR - Task failed with exception\n"
    ),
    "rich": (
        "╭─────────────── Traceback (most recent call last) ───────────────╮\n"
        "│ /x/train.py:12 in main                                          │\n"
        "│                                                                 │\n"
        '│ ❱ 12     raise ValueError("no")                                 │\n'
        "╰─────────────────────────────────────────────────────────────────╯\n"
        "ValueError: no\n"
    ),
    "vllm-two": (
        "(Worker_TP0 pid=10) ERROR 01-16 11:51:23 [multiproc_executor.py:671] WorkerProc hit an exception.\n"
        "(Worker_TP0 pid=10) ERROR 01-16 11:51:23 [multiproc_executor.py:671] Traceback (most recent call last):\n"
        "(Worker_TP1 pid=11) ERROR 01-16 11:51:23 [multiproc_executor.py:671] Traceback (most recent call last):\n"
        '(Worker_TP0 pid=10) ERROR 01-16 11:51:23 [multiproc_executor.py:671]   File "/x/a.py", line 3, in f\n'
        '(Worker_TP1 pid=11) ERROR 01-16 11:51:23 [multiproc_executor.py:671]   File "/x/b.py", line 4, in g\n'
        "(Worker_TP0 pid=10) ERROR 01-16 11:51:23 [multiproc_executor.py:671]     f()\n"
        "(Worker_TP1 pid=11) ERROR 01-16 11:51:23 [multiproc_executor.py:671]     g()\n"
        "(Worker_TP1 pid=11) ERROR 01-16 11:51:23 [multiproc_executor.py:671] ValueError: g\n"
        "(Worker_TP0 pid=10) ERROR 01-16 11:51:23 [multiproc_executor.py:671] RuntimeError: f\n"
    ),
    "group": (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "a.py", line 3, in <module>\n'
        '  |     raise ExceptionGroup("x", [ValueError(1)])\n'
        "  | ExceptionGroup: x (1 sub-exception)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | ValueError: 1\n"
        "    +------------------------------------\n"
    ),
    "faulthandler": (
        "Fatal Python error: Segmentation fault\n"
        "\n"
        "Thread 0x00007f (most recent call first):\n"
        '  File "/x/threading.py", line 3 in wait\n'
        "Current thread 0x00007f (most recent call first):\n"
        '  File "/x/train.py", line 3 in main\n'
        "Segmentation fault (core dumped)\n"
    ),
    "slurm": (
        "0: step 1\n"
        "1: step 1\n"
        "1: Traceback (most recent call last):\n"
        "0: step 2\n"
        '1:   File "a.py", line 3, in <module>\n'
        "1:     x()\n"
        "1: IndexError: list index out of range\n"
        "srun: error: node07: task 1: Exited with exit code 1\n"
        "srun: launch/slurm: _step_signal: Terminating StepId=12.0\n"
        "0: slurmstepd: error: *** STEP 12.0 ON node06 CANCELLED AT 2025-01-02T03:04:05 ***\n"
        "srun: error: node06: task 0: Terminated\n"
    ),
    "journal": (
        "Jan 02 03:04:05 node7 systemd[1]: Started Train.\n"
        "Jan 02 03:04:09 node7 python[12]: Traceback (most recent call last):\n"
        'Jan 02 03:04:09 node7 python[12]:   File "/x/a.py", line 3, in <module>\n'
        "Jan 02 03:04:09 node7 python[12]:     x()\n"
        "Jan 02 03:04:09 node7 python[12]: NameError: name 'x' is not defined\n"
        "Jan 02 03:04:09 node7 systemd[1]: train.service: Main process exited, code=exited, status=1/FAILURE\n"
        "Jan 02 03:04:09 node7 systemd[1]: train.service: Failed with result 'exit-code'.\n"
    ),
    "clean": (
        "INFO 01-16 11:51:23 [api_server.py:10] vLLM API server version 0.11\n"
        "(EngineCore_DP0 pid=71) INFO 11-12 [core.py:68] Initializing a V1 LLM engine\n"
        "(APIServer pid=1) INFO:     Started server process [1]\n"
        "(APIServer pid=1) INFO:     Application startup complete.\n"
        '(APIServer pid=1) INFO:     10.0.0.1:1 - "POST /v1/x HTTP/1.1" 200 OK\n'
        "Exit code: 0\n"
    ),
    "retried": (
        "2025-01-02 03:04:05,123 WARNING connection to 10.0.0.1 refused, retrying in 3 s\n"
        "2025-01-02 03:04:08,123 INFO connected\n"
        "2025-01-02 03:05:08,123 INFO training finished\n"
    ),
}
FAILURES: dict[str, list[tuple[str, int | None]]] = {
    "deepspeed-pdsh": [("ValueError: bad batch.", None)],
    "accelerate": [("FileNotFoundError: [Errno 2] No such file or directory: 'model.bin'.", 1)],
    "docker-json": [("TypeError: x.", None)],
    "fluentd": [("The NPU's memory is used up.", None)],
    "tqdm": [("TypeError: x.", None)],
    "airflow": [("KeyError: 'lr'.", None)],
    "rich": [("An error that Jumar does not know: ValueError: no.", None)],
    "vllm-two": [("ValueError: g.", 1), ("RuntimeError: f.", 0)],
    "group": [("ExceptionGroup: x (1 sub-exception).", None)],
    "faulthandler": [("A process crashed in native code.", None)],
    "slurm": [("IndexError: list index out of range.", 1)],
    "journal": [("NameError: name 'x' is not defined.", None)],
    "clean": [],
    "retried": [],
}


@pytest.mark.parametrize("kind", LOGS)
def test_the_failure_of_a_log_is_found(kind: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOGS[kind], newline="")
    findings = diagnose_logs([tmp_path]).findings
    errors = [(one.message, one.where.rank) for one in findings if one.severity is Severity.ERROR]
    assert errors == FAILURES[kind]
