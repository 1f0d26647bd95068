"""Runs scripts of TensorFlow, each in a fork of one process that has imported it, and prints a JSON of what they did.

Of each script: its losses, what went wrong, and of each session that it made whether its configuration names the NPU.

`python run_programs.py FOLDER_OF_MODULES... -- SCRIPT...`; with `jumar` as the folder they run as under `jumar run`.
"""

import io
import json
import os
import runpy
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path


def watch_sessions():
    """Note of each session that is made whether its configuration has the NPU's optimizer, in the list returned."""
    from tensorflow.python.client import session

    made, original = [], session.BaseSession.__init__

    def noting(self, target="", graph=None, config=None):
        options = config.graph_options.rewrite_options if config is not None else None
        made.append(options is not None and [each.name for each in options.custom_optimizers] == ["NpuOptimizer"])
        original(self, target, graph, config)

    session.BaseSession.__init__ = noting
    return made


def run(script, *, by_jumar):
    """Run a script in a fork; return what it did."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        out, errors, sessions = io.StringIO(), io.StringIO(), watch_sessions()
        error = ""
        try:
            sys.argv = [script]
            with redirect_stdout(out), redirect_stderr(errors):
                if by_jumar:
                    error = run_by_jumar(script, errors)
                else:
                    runpy.run_path(script, run_name="__main__")
        except SystemExit:
            pass
        except BaseException:  # noqa: BLE001  # what a program raises is its result
            error = traceback.format_exc()
        found = [line.split()[-1] for line in out.getvalue().splitlines() if line.startswith("loss ")]
        with os.fdopen(writing, "w") as pipe:
            json.dump({"losses": found, "error": error, "sessions": sessions}, pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        found = pipe.read()
    os.wait()
    return json.loads(found or '{"losses": [], "error": "it died", "sessions": []}')


def run_by_jumar(script, errors):
    """Run a script as `jumar run` does, with its stand-in for the adapter; return what went wrong."""
    from jumar.capture.frameworks.tensorflow.run import run_tensorflow
    from jumar.capture.process.program import of_script

    end = run_tensorflow(of_script(Path(script)), stop_after=None, soc=None)
    return errors.getvalue() if end.exit_code else ""


def main():
    """Run them all."""
    at = sys.argv.index("--")
    folders = sys.argv[1:at]
    by_jumar = folders == ["jumar"]
    if not by_jumar:
        sys.path[:0] = folders
    import tensorflow  # noqa: F401

    print(json.dumps({script: run(script, by_jumar=by_jumar) for script in sys.argv[at + 1 :]}))


if __name__ == "__main__":
    main()
