"""`Converter`: the process of TensorFlow that converts a model; `interpreter` says which Python runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jumar.base.errors import UsageError
from jumar.base.outside.frameworks import TENSORFLOW_PYTHON
from jumar.base.process import children
from jumar.tune.model.errors import TuneError

MAKE = "python scripts/framework_environment.py tensorflow"
EXTRA = "pip install 'jumar[tensorflow,tf2onnx]'"
_WAY = f"`{MAKE}` makes an environment with both, as `{EXTRA}` does; then set {TENSORFLOW_PYTHON} to its bin/python"
_SCRIPT = Path(__file__).with_name("convert_script.py")
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "KERAS_BACKEND": "tensorflow"}


def interpreter(path: Path) -> str:
    """Return the Python that has TensorFlow and tf2onnx: that of JUMAR_TENSORFLOW, else this one.

    Raises UsageError where the variable names no program, TuneError without it where this one lacks one of the two.
    """
    if named := os.environ.get(TENSORFLOW_PYTHON, "").strip():
        if found := shutil.which(named):
            return found
        raise UsageError(
            f"{TENSORFLOW_PYTHON} is {named}, which is no program. Name a Python that has TensorFlow and tf2onnx."
        )
    if lacking := [name for name in ("tensorflow", "tf2onnx") if not _is_installed(name)]:
        raise TuneError(f"{path} needs {' and '.join(lacking)}, which this Python lacks. {_WAY}.")
    return children.of_the_user([])[0]


def _is_installed(name: str) -> bool:
    """Tell whether a package can be imported; a mere folder of that name is none."""
    found = find_spec(name)
    return found is not None and found.origin is not None


class Converter:
    """A process of TensorFlow that answers one question after another about one model."""

    def __init__(self, process: subprocess.Popen[str], path: Path, python: str, log: Path, wrote: str) -> None:
        self._process = process
        self._path = path
        self._python = python
        self._log = log
        self._wrote = wrote

    def ask(self, question: Mapping[str, Any], meanwhile: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """Return the answer to a question; `meanwhile` is called while it is worked out.

        Raises TuneError, in one sentence, where there is none.
        """
        if self._process.stdin is None or self._process.stdout is None:
            raise ValueError("the process has no pipes")
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            meanwhile()
            answer = json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            raise TuneError(
                f"{self._path} cannot be converted: the process of TensorFlow ({self._python}) ended, its last words: "
                f"{self._last_words()}. Load the model there by hand, and mend it or that environment."
            ) from None
        if "refused" in answer:
            way = f" {self._python} lacks it: {_WAY}." if answer["refused"].startswith("needs ") else ""
            raise TuneError(f"{self._path} {answer['refused']}.{way}")
        if "failed" in answer:
            raise TuneError(
                f"{self._path} cannot be converted: {_sentence(answer['failed'])} ({self._python}). {self._advice()}"
            )
        found: dict[str, Any] = answer
        return found

    def _advice(self) -> str:
        if self._wrote:
            return f"{self._wrote} wrote it: name a Python with that by {TENSORFLOW_PYTHON}, or save the model again."
        return "Load the model and call it in that Python, and mend it or take the TensorFlow that wrote it."

    def _last_words(self) -> str:
        lines = [one.strip() for one in self._log.read_text("utf-8", "replace").splitlines() if one.strip()]
        return lines[-1][:300] if lines else "none"


@contextmanager
def converter(path: Path, folder: Path, wrote: str = "") -> Iterator[Converter]:
    """Start the process for a model; it ends with the context. Its messages go to a file in `folder`.

    `wrote` says what wrote the model, where that is known: `Keras 3.15.1`.
    Raises as `interpreter` does, and UsageError where the program cannot be started.
    """
    python = interpreter(path)
    log = folder / "tensorflow.log"
    with log.open("wb") as errors:
        try:
            process = subprocess.Popen(
                children.of_another(python, _SCRIPT), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                text=True, env={**os.environ, **_QUIET},
            )  # fmt: skip
        except OSError as error:
            raise UsageError(f"{TENSORFLOW_PYTHON} is {python}, which cannot be started ({error.strerror}).") from error
        try:
            yield Converter(process, path, python, log, wrote)
        finally:
            process.kill()
            process.communicate()


def _sentence(text: str) -> str:
    """Return the first line of an error that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip(" -")]
    return (lines[0] if lines else "it says nothing more")[:300].rstrip(".")
