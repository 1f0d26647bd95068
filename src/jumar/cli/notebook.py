"""`%load_ext jumar`: the commands in a notebook, and cells that run on the emulated NPU or are recorded.

`%jumar WORDS` runs a command; where it writes a page, the notebook shows it. `%%npu [SOC]` runs a cell with the
emulated NPU. `%%jumar_record FOLDER [VARIABLE]` records what a cell computes; VARIABLE is the model.
"""

from __future__ import annotations

import contextlib
import html
import io
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from jumar.base.errors import JumarError, UsageError
from jumar.cli.main import EXIT_USAGE, main

_HEIGHT_PX = 640
_PAGE = re.compile(r"(?:^Wrote |^Open |/)?(\S+\.html)\b", re.MULTILINE)


def load(shell: Any) -> None:
    """Register the magics with an IPython shell."""
    shell.register_magic_function(lambda line: command(line, shell), "line", "jumar")
    shell.register_magic_function(lambda line, cell: on_npu(line, cell, shell), "cell", "npu")
    shell.register_magic_function(lambda line, cell: recorded(line, cell, shell), "cell", "jumar_record")


def command(line: str, shell: Any) -> None:
    """Run `jumar WORDS` in this process: print what it says, and show the page that it wrote."""
    words = shlex.split(line)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    text = out.getvalue()
    shell.display_pub.publish({"text/plain": text, "text/html": f"<pre>{html.escape(text)}</pre>"}) if text else None
    if err.getvalue() and code >= EXIT_USAGE:
        shell.display_pub.publish({"text/plain": err.getvalue()})
    for page in _pages(words, text + err.getvalue()):
        shell.display_pub.publish({"text/plain": f"{page}", "text/html": frame(page)})


def frame(page: Path) -> str:
    """Return the HTML of a page in a frame of its own; it needs no network."""
    inside = html.escape(page.read_text("utf-8"))
    return f'<iframe style="width:100%;height:{_HEIGHT_PX}px;border:0" srcdoc="{inside}"></iframe>'


def _pages(words: Sequence[str], said: str) -> list[Path]:
    """Return the pages that a command wrote: those that it was asked for, or names."""
    asked = [word for before, word in pairwise(words) if before == "--report"]
    named = _PAGE.findall(said)
    found = [Path(name) for name in dict.fromkeys([*asked, *named])]
    return [page for page in found if page.is_file()][:1]


def on_npu(line: str, cell: str, shell: Any) -> None:
    """Run a cell with the emulated NPU; `line` may name the chip."""
    import jumar

    soc = line.strip()
    with _Told(shell), jumar.emulate(soc) if soc else jumar.emulate():
        _run(cell, shell)


def recorded(line: str, cell: str, shell: Any) -> None:
    """Record what a cell computes into a folder: `line` names it, and the model where there is one."""
    import jumar

    with _Told(shell):
        folder, model = _recording(line, shell.user_ns)
        with jumar.record(folder, model=model):
            _run(cell, shell)
        shell.display_pub.publish({"text/plain": f"recorded: {folder}"})


def _recording(line: str, names: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the folder and the model that a line names. Raises UsageError where it names none."""
    words = shlex.split(line)
    if not words or len(words) > 2:
        raise UsageError(f'"%%jumar_record {line.strip()}" must be a folder, and the model\'s name. Try rec model.')
    if len(words) == 2 and words[1] not in names:
        raise UsageError(f'"{words[1]}" must be a variable of the notebook; there is none of that name.')
    return words[0], names[words[1]] if len(words) == 2 else None


def _run(cell: str, shell: Any) -> None:
    result = shell.run_cell(cell)
    error = result.error_before_exec or result.error_in_exec
    if error is not None:
        raise error


class _Told(contextlib.AbstractContextManager["_Told"]):
    """Prints an error of Jumar as one sentence. The cell's own error was shown by the shell already."""

    def __init__(self, shell: Any) -> None:
        self._publish: Callable[[dict[str, str]], None] = shell.display_pub.publish

    def __exit__(self, kind: Any, error: Any, _traceback: Any) -> bool:
        if isinstance(error, JumarError):
            self._publish({"text/plain": f"jumar: {error}"})
        return isinstance(error, Exception)
