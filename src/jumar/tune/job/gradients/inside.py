"""Job type 4 from inside a training: every process that a launcher started runs the script with the watch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from jumar.base.errors import InputError
from jumar.capture.process.plugin import ENVIRONMENT as PLUGIN_ENVIRONMENT
from jumar.capture.process.program import Program
from jumar.capture.process.script import run_program
from jumar.tune.job.gradients.messages import ANSWER, PROGRESS, Request, read_json
from jumar.tune.job.gradients.trial import no_answer
from jumar.tune.job.gradients.watch import FOLDER_ENVIRONMENT, PLUGIN
from jumar.tune.model.process import OwnFolder


def is_inside(environ: Mapping[str, str]) -> bool:
    """Tell whether a launcher started this process as one of several."""
    return "RANK" in environ and environ.get("WORLD_SIZE", "1") != "1"


def is_first(environ: Mapping[str, str]) -> bool:
    """Tell whether this process is the one that answers."""
    return environ.get("RANK") == "0"


def run_inside(program: Program, request: Request) -> dict[str, Any]:
    """Run the script in this process and return what the processes measured; the first one's request holds for all.

    Raises InputError, in the first process, where there is no answer.
    """
    with OwnFolder("jumar-gradients-") as folder:
        request.write(folder)
        os.environ |= {PLUGIN_ENVIRONMENT: PLUGIN, FOLDER_ENVIRONMENT: str(folder)}
        end = run_program(program, plan=None, stop_after=None)
        answer = read_json(folder, ANSWER)
        progress = read_json(folder, PROGRESS)
    if not is_first(os.environ):
        return {}
    if answer is None:
        raise InputError(f"{program.title} {no_answer(end.exit_code, progress)}")
    if "error" in answer:
        raise InputError(f"{program.title}: {answer['error']}")
    return answer
