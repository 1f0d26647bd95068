"""Runs a training for its first steps with the watch in each of its processes, and returns what they measured."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jumar.base.errors import InputError, UsageError
from jumar.capture.process.launcher import LaunchResult, launch
from jumar.capture.process.plugin import ENVIRONMENT as PLUGIN_ENVIRONMENT
from jumar.capture.process.program import Program, parse_program
from jumar.device import DevicePlan
from jumar.tune.job.gradients.messages import ANSWER, PROGRESS, STEPS, Request, read_json
from jumar.tune.job.gradients.watch import FOLDER_ENVIRONMENT, PLUGIN
from jumar.tune.job.script import kept_log, last_words
from jumar.tune.model.process import OwnFolder
from jumar.tune.search.gradients.model import Link, fit_link

LINK_MODULE = "jumar.tune.job.gradients.link"
MARGIN_S = 30.0
"""A run may take so much longer than its budget: a training starts and loads its data before anything is measured."""


def training(words: Sequence[str], num_processes: int | None) -> Program:
    """Return the program of a command line; a plain script in so many processes, by torchrun.

    Raises UsageError for a launcher that says the number of its processes itself.
    """
    program = parse_program(words)
    if num_processes is None:
        return program
    if program.launcher:
        raise UsageError(
            f"--nproc starts a plain script in several processes, and {program.launcher} does that itself. Leave "
            "--nproc out."
        )
    return parse_program(["torchrun", "--standalone", "--nproc-per-node", str(num_processes), *program.words])


def run_training(program: Program, request: Request, device: DevicePlan, budget_s: float | None) -> dict[str, Any]:
    """Return the answer of the processes. Raises InputError, in one sentence, where there is none."""
    with OwnFolder("jumar-gradients-") as folder, kept_log() as log:
        request.write(folder)
        environment = {PLUGIN_ENVIRONMENT: PLUGIN, FOLDER_ENVIRONMENT: str(folder)}
        result = _launched(program, device, log, environment, budget_s)
        answer = read_json(folder, ANSWER)
        if answer is None:
            raise InputError(f"{program.title} {_why(result, read_json(folder, PROGRESS), budget_s)}")
    if "error" in answer:
        raise InputError(f"{program.title}: {answer['error']}")
    return answer


def measure_link(num_processes: int, total_bytes: int) -> Link:
    """Return the link between processes on this machine, by Gloo. Raises InputError where it cannot be measured."""
    with OwnFolder("jumar-link-") as folder, kept_log() as log:
        words = ["--standalone", "--nproc-per-node", str(num_processes), "-m", LINK_MODULE]
        program = parse_program(["torchrun", *words, str(folder), str(total_bytes)])
        result = _launched(program, DevicePlan(kind="cpu"), log, {}, None)
        answer = read_json(folder, ANSWER)
        if answer is None:
            raise InputError(f"the all-reduce between {num_processes} processes {_why(result, None, None)}")
    return fit_link([(size, times) for size, times in answer["samples"]])


def _launched(
    program: Program, device: DevicePlan, log: Path, environment: Mapping[str, str], budget_s: float | None
) -> LaunchResult:
    timeout_s = None if budget_s is None else budget_s + MARGIN_S
    return launch(
        program, device=device, record=None, stop_after=None, cwd=Path.cwd(), log=log, environment=environment,
        timeout_s=timeout_s,
    )  # fmt: skip


def _why(result: LaunchResult, progress: Mapping[str, Any] | None, budget_s: float | None) -> str:
    """Return why there is no answer, and what to do."""
    if result.returncode < 0 and budget_s is not None:
        return f"was ended after {budget_s + MARGIN_S:.0f} s. Give more --time-budget, or see {result.log}."
    if result.returncode:
        last = last_words(result.log.read_text("utf-8", "replace")) or "it wrote nothing"
        return f"exited with code {result.returncode} ({last}); see {result.log}."
    return no_answer(0, progress)


def no_answer(code: int, progress: Mapping[str, Any] | None) -> str:
    """Return why a training that ended by itself left no answer, and what to do."""
    if code:
        return f"exited with code {code} before anything was measured. Mend it first."
    if progress is None:
        return "called no module with parameters that need gradients. Name the script that trains."
    return (
        f"ended after {progress['steps']} backward passes, and {STEPS} are watched before anything is measured. Let "
        "it train longer."
    )


def device_of(target: str) -> DevicePlan:
    """Return the device of `--device`: what the environment asks for, else the CPU, or the NPU that is named."""
    kind, _, soc = target.partition(":")
    if kind == "npu":
        plan = DevicePlan(kind="npu")
        return replace(plan, soc=soc) if soc else plan
    return DevicePlan.from_environment(os.environ) or DevicePlan(kind="cpu")
