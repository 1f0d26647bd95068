"""`python jumar_collector.pyz -o FOLDER train.py ARGS…`: runs a TensorFlow script as `python` would, and records it."""

from __future__ import annotations

import argparse
import platform
import runpy
import sys
import traceback
from pathlib import Path
from typing import Any

from jumar.capture.frameworks.tensorflow.collector.notes import END, RUN, STEPS, VERSION, Notes, write_json
from jumar.capture.frameworks.tensorflow.observe.layouts import Layouts
from jumar.capture.frameworks.tensorflow.observe.observer import Observer
from jumar.capture.frameworks.tensorflow.observe.sessions import plain_file

PROGRAM = "jumar_collector.pyz"


class StopCollecting(BaseException):
    """Ends a program after the steps that were asked for."""


class Collection:
    """Records this process. Raises OSError where the folder cannot be written."""

    def __init__(self, folder: str, keeps_tensors: bool, steps: tuple[int, int | None], command: list[str]) -> None:
        import tensorflow as tf

        self._folder, self._first, self._end = folder, steps[0], steps[1]
        self._step = 0
        self._failure = ""
        Path(folder, STEPS).mkdir(parents=True)
        self._run: dict[str, Any] = {
            "version": VERSION,
            "framework": "tensorflow",
            "tensorflow": str(tf.__version__),
            "python": platform.python_version(),
            "command": command,
            "layers": {},
        }
        write_json(Path(folder, RUN), self._run)
        layouts = Layouts()
        self._notes = Notes(folder, keeps_tensors, layouts)
        self._observer = Observer(
            self._notes, None, self._end_step, on_restart=self._restart, find_line=_line, layouts=layouts
        )

    def start(self) -> None:
        """Begin to observe."""
        self._observer.start()
        self._begin_step()

    def end(self, status: str, code: int, error: str) -> None:
        """Observe no more, and write how the run ended."""
        self._notes.is_open = False
        if status == "finished" and self._observer.is_open and not self._observer.has_optimizer:
            self._hand_over()
        self._observer.stop()
        told = [one for one in (self._failure, self._notes.failure) if one] + self._observer.sentences()
        content = {"status": status, "exit_code": code, "num_steps": self._step, "error": error, "not_covered": told}
        write_json(Path(self._folder, END), content)

    def _begin_step(self) -> None:
        wanted = self._first <= self._step and (self._end is None or self._step < self._end)
        self._notes.is_open = wanted and not self._failure and not self._notes.failure
        self._observer.begin_step()
        self._notes.begin_step()

    def _restart(self) -> None:
        """Forget the steps so far: calls of a model before there is an optimizer are none."""
        for file in list(Path(self._folder, STEPS).iterdir()):
            file.unlink()
        self._step = 0
        self._begin_step()

    def _end_step(self) -> None:
        self._hand_over()
        self._step += 1
        self._begin_step()
        if self._end is not None and self._step >= self._end:
            raise StopCollecting

    def _hand_over(self) -> None:
        if not self._notes.is_open:
            return
        with self._notes.own_work():
            self._observer.end_step()
        try:
            self._notes.write(self._step)
            if not self._run["layers"]:
                self._run.update(layers=self._observer.layers)
                write_json(Path(self._folder, RUN), self._run)
        except OSError as error:
            self._failure = f"steps from {self._step} on are not recorded: {error.strerror}"


def _line(frame: Any) -> str:
    """Return `file:line` of the user's frame at or outside of a frame."""
    while frame is not None:
        name = frame.f_code.co_filename
        shown = plain_file(name) if PROGRAM not in name else ""
        if shown:
            return f"{shown}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _steps(text: str) -> tuple[int, int | None]:
    first, colon, end = text.partition(":")
    numbers = int(first or 0), int(end) if end else None
    if not colon or numbers[0] < 0 or (numbers[1] is not None and numbers[1] <= numbers[0]):
        raise ValueError(text)
    return numbers


def main() -> int:
    """Record the script that the command line names, and return its exit code."""
    parser = argparse.ArgumentParser(PROGRAM, description=__doc__)
    parser.add_argument("-o", "--out", required=True, metavar="FOLDER", help="new folder for what is collected")
    parser.add_argument("--values", choices=("stats", "tensors"), default="stats", help="statistics, or all elements")
    parser.add_argument(
        "--steps", type=_steps, default=(0, None), metavar="START:END", help="steps, from 0, END left out"
    )
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS")
    given = parser.parse_args()
    if not Path(given.script).is_file():
        parser.error(f"{given.script} is no file. Name the Python script that trains.")
    try:
        collection = Collection(given.out, given.values == "tensors", given.steps, [given.script, *given.arguments])
    except ImportError as error:
        parser.error(f"TensorFlow cannot be imported here ({error}). Run this with the Python that trains.")
    except OSError as error:
        parser.error(f"{given.out} cannot be made ({error.strerror}). Name a new folder on a disk with room.")
    status, code, text = _executed(collection, given.script, given.arguments)
    collection.end(status, code, text)
    sys.stderr.write(f"{PROGRAM}: {given.script} {status}; copy {given.out} to where Jumar is, then: jumar compare …\n")
    return code


def _executed(collection: Collection, script: str, arguments: list[str]) -> tuple[str, int, str]:
    """Run a script, and return its status, exit code and traceback."""
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    collection.start()
    try:
        runpy.run_path(script, run_name="__main__")
    except StopCollecting:
        return "stopped", 0, ""
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        return "exited", code, ""
    except KeyboardInterrupt:
        return "interrupted", 130, ""
    except BaseException:  # noqa: BLE001 - whatever the script raises is reported as its own
        text = traceback.format_exc()
        sys.stderr.write(text)
        return "raised", 1, text
    return "finished", 0, ""
