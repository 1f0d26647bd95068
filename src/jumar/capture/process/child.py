"""`python -m jumar.capture.process.child PROGRAM`: runs a script, module or launcher as the environment's plans say.

The process that `launch` starts, and each process that a launcher starts. An error before the script runs is written to
the file that `JUMAR_LAUNCH_ERROR` names, and printed as one sentence on stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from jumar.base.errors import JumarError
from jumar.base.process import children
from jumar.capture.plans.claims import claim
from jumar.capture.process.processes import become, let_go, must_be_started, prepared, replace_process
from jumar.capture.process.program import Program, module_file, parse_program
from jumar.capture.process.project import is_project_file

if TYPE_CHECKING:
    from jumar.capture.plans.plan import RecordPlan

ERROR_ENVIRONMENT = "JUMAR_LAUNCH_ERROR"
EXIT_REFUSED = 2


def main(words: Sequence[str] | None = None) -> int:
    """Run the program that the words of the command line name; return its exit code, 2 when it could not be run."""
    claim()  # before torch is imported: this process brings up its device and observer itself
    from jumar.capture.plans.plan import RecordPlan, stop_after_from

    try:
        program = parse_program(sys.argv[1:] if words is None else words)
        plan = RecordPlan.from_environment(os.environ)
        if must_be_started(program):
            _become(program, plan)
        if program.kind == "module" and not is_project_file(module_file(program.name).absolute()):
            become(children.of_the_user(program.words), os.environ)  # a tool such as pip: none of the run's
        from jumar.capture.process.inherit import install_workspace_guard
        from jumar.capture.process.script import run_program

        install_workspace_guard(os.environ)
        end = run_program(program, plan=plan, stop_after=stop_after_from(os.environ))
    except JumarError as error:
        sys.stderr.write(f"jumar: {error}\n")
        report = os.environ.get(ERROR_ENVIRONMENT)
        if report:
            Path(report).write_text(json.dumps({"error": type(error).__name__, "message": str(error)}), "utf-8")
        return EXIT_REFUSED
    let_go()
    return end.exit_code


def _become(program: Program, plan: RecordPlan | None) -> NoReturn:
    """Replace this process by a launcher or shell script, after the recording's folder was made."""
    variables = dict(os.environ)
    if plan is not None and not plan.prepared:
        from jumar.device import DevicePlan, activate

        device = DevicePlan.from_environment(os.environ)
        variables |= prepared(plan, program, activate(device) if device is not None else None).to_environment()
    replace_process(program, variables)


if __name__ == "__main__":
    sys.exit(main())
