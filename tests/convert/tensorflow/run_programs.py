"""Runs scripts of TensorFlow, each in a fork of one process that has imported it, and prints a JSON of what they did.

Of each script: its losses, what went wrong, and of each session that it made whether its configuration names the NPU.

`python run_programs.py FOLDER_OF_MODULES... -- SCRIPT...`
"""

import io
import json
import os
import runpy
import sys
import traceback
from contextlib import redirect_stdout


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


def run(script):
    """Run a script in a fork; return what it did."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        out = io.StringIO()
        error, sessions = "", watch_sessions()
        try:
            sys.argv = [script]
            with redirect_stdout(out):
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


def main():
    """Run them all."""
    at = sys.argv.index("--")
    sys.path[:0] = sys.argv[1:at]
    import tensorflow  # noqa: F401

    print(json.dumps({script: run(script) for script in sys.argv[at + 1 :]}))


if __name__ == "__main__":
    main()
