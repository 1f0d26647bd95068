"""A log that names an error never ends in Fine; one that does not is not accused."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.advise.doctor import diagnose_logs
from jumar.cli.main import main
from jumar.show.pages.doctor import logs_page

ERRORS = [
    "[worker 3] failed with exit code 9",
    "bash: line 1: 4711 Killed                  python train.py",
    "Segmentation fault (core dumped)",
    "srun: error: node07: task 3: Exited with exit code 1",
    "FATAL: could not open the data set",
    "E0412 data_loader.cc:88] Unexpected exception in worker",
    "terminate called after throwing an instance of 'std::bad_alloc'\nAborted",
    "slurmstepd: Detected 1 oom_kill event; some of your processes may have been killed",
    "process 12 received SIGABRT",
    "child process returned, exit status: 137",
    "SyntaxError: invalid syntax",
    "ModuleNotFoundError: No module named 'apex'",
    "train.py:33: AssertionError",
    "bash: line 3: torchrun: command not found",
    "python: can't open file '/w/trian.py': [Errno 2] No such file or directory",
    "[rank0]:[E102 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation",
    "E0102 03:04:05.123456 123 reader.cc:33] short read",
    "slurmstepd: *** JOB 33 ON n7 CANCELLED AT 2025-01-02T03:04:05 DUE TO TIME LIMIT ***",
    "loss is NaN at step 33, stopping training",
    "open /data/x: Permission denied",
    "make: *** [Makefile:3: train] Error 1",
    "Finished with 3 errors",
    "1 failed, 3 passed, 0 errors",
    "no errors in stage 1; stage 2: error: out of range",
    "error 5: bad input",
    "rank 0 failed",
    "node: 0 crashed",
    "srun: task 3: Terminated",
    "Timed out waiting for 8 workers to join",
    "Illegal instruction",
    "unable to allocate 3.2 GiB for an array",
    "libcudart.so.12: cannot open shared object file",
    "test error: the model has no weights",
    "validation error occurred in worker",
    "error: no device",
    '{"severity":"ERROR","message":"x"}',
    "job ended, rc=139",
]
HEALTHY = [
    "epoch 3 Top-1 error 23.4 Top-5 error: 7.01",
    "val error rate: 0.12",
    "finished with 0 errors",
    "no errors found, without failure",
    "loss 0.31 grad norm 1.2",
    "saved checkpoint to out/model.pt",
    "step 3 error_rate=0.1 loss=0.4",
    "no failure detected",
    "errors=0 failures=0",
    "12 passed, 0 failed in 3.2s; 0/128 failed, 0 timeouts",
    "failed requests: 0",
    "failed: 0, errors: 0, exit status 0",
    "Number of failed steps: 0; skipped 0; aborted 0; killed 0",
    "No exceptions were raised. Errors: none",
    "Job finished successfully (no errors or failures)",
    "process exited with code 0",
    '{"level":"info","error":null,"errors":[],"failed":false,"exception":""}',
    "mean absolute error: 0.33, root mean squared error = 1.2e-3, max error: 12",
    "WER (word error rate) 12.3% | CER 4.5%",
    "Reconstruction error per layer: [0.1, 0.2]",
    "| epoch | train error | val error |",
    "MeanSquaredError: 0.12",
    "quantization error is below 1e-3 for all layers",
    "mse error decreased from 0.3 to 0.2",
    "generalisation error curve saved to error.png",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING=1 --ignore-errors --max-errors 3",
    "Registered exception handlers",
    "signal handler for SIGTERM, SIGINT installed",
    "out of memory guard: off",
    "max_error_count = 5, on_failure=retry, error_handling: strict",
    "State: Terminated",
    "timeout=1800 warmup=3 limit=5",
]


@pytest.mark.parametrize("line", ERRORS)
def test_a_line_that_names_an_error_is_not_fine(line: str, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"step 1 loss 0.5\n{line}\nstep 2\n")
    found = logs_page(diagnose_logs([log])).verdict
    assert found.status != "fine", found


@pytest.mark.parametrize("line", HEALTHY)
def test_a_healthy_line_is_not_accused(line: str, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"step 1 loss 0.5\n{line}\nstep 2\n")
    assert logs_page(diagnose_logs([log])).verdict.status == "fine"


def test_a_known_error_stands_alone(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        'worker failed\nTraceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: no\n'
    )
    assert [incident.finding.code for incident in diagnose_logs([log]).incidents] == ["JM851"]


def test_lines_that_differ_in_numbers_count_as_one(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"worker {number} failed\n" for number in range(50)))
    (incident,) = diagnose_logs([log]).incidents
    assert incident.lead.count == 50
    assert main(["doctor", str(log)]) == 0
    assert "Fine" not in capsys.readouterr().out
