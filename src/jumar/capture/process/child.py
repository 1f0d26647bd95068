"""`python -m jumar.capture.process.child SCRIPT ARGS`: runs a script as the environment's plans say.

The process `launch` starts. An error before the script runs is written to the file that `JUMAR_LAUNCH_ERROR` names, and
printed as one sentence on stderr.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from jumar.base.errors import JumarError
from jumar.capture.claims import claim

ERROR_ENVIRONMENT = "JUMAR_LAUNCH_ERROR"
EXIT_REFUSED = 2


def main() -> int:
    """Run the script named on the command line and return its exit code, 2 when it could not be run."""
    script, *arguments = sys.argv[1:]
    claim()  # before torch is imported: this process brings up its device and observer itself
    from jumar.capture.plans.plan import RecordPlan, stop_after_from
    from jumar.capture.process.script import run_script

    try:
        from jumar.capture.process.inherit import install_workspace_guard

        install_workspace_guard(os.environ)
        plan = RecordPlan.from_environment(os.environ)
        end = run_script(Path(script), arguments, plan=plan, stop_after=stop_after_from(os.environ))
    except JumarError as error:
        sys.stderr.write(f"jumar: {error}\n")
        report = os.environ.get(ERROR_ENVIRONMENT)
        if report:
            Path(report).write_text(json.dumps({"error": type(error).__name__, "message": str(error)}), "utf-8")
        return EXIT_REFUSED
    return end.exit_code


if __name__ == "__main__":
    sys.exit(main())
