"""Compiles `observe.cpp` for this PyTorch and loads it, without a run that waits for the compiler. Imports torch.

A library of an earlier run is taken from the cache. Without one a thread compiles it once a recording has gone on for
a while, and the recording uses it from the next step on; short recordings start no compiler. Where it cannot be
compiled, Python notes everything, and nothing is said.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import sysconfig
import threading
import time
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from typing import Any

import torch

from jumar.base.errors import JumarError
from jumar.base.native import cached_library, compiled, features, was_cut

_SOURCE = Path(__file__).parent / "native" / "observe.cpp"
_TORCH = Path(torch.__file__).parent
_OURS = {"dispatch", "detach"}
_METHOD = re.compile(r"virtual\s+([^;~]*?)\b(\w+)\s*\(([^;]*?)\)\s*const\s*=\s*0\s*;", re.DOTALL)


SWITCH = "JUMAR_RECORD_NATIVE"
"""`0` in the environment: everything is noted by Python."""
_PATIENCE_S = 5.0
"""Recordings that are shorter start no compiler."""
_LONG_PATIENCE_S = 60.0
"""The same where the last recording ended before its compiler did: scripts are mostly started again as they were."""

_failed = (JumarError, OSError, ImportError, ValueError)
_state: dict[str, Any] = {"module": None, "thread": None}
"""Of the process: a library is loaded once."""


class Loader:
    """Gives the module as soon as it is there."""

    def __init__(self) -> None:
        self._is_off = os.environ.get(SWITCH, "") == "0" or not sys.platform.startswith("linux")
        self._began = time.monotonic()
        self._is_first = True
        self._patience_s = _PATIENCE_S

    def module(self) -> Any:
        """Return the module, or None while or where there is none."""
        if self._is_off or _state["module"] is not None:
            return None if self._is_off else _state["module"]
        if self._is_first:
            self._is_first = False
            self._take_cached()
        elif _state["thread"] is None and time.monotonic() - self._began > self._patience_s:
            thread = _state["thread"] = threading.Thread(target=_compile, name="jumar-compiler", daemon=True)
            thread.start()
        return _state["module"]

    def _take_cached(self) -> None:
        try:
            if cached():
                _state["module"] = load()
            elif was_cut(_SOURCE, **_options()):
                self._patience_s = _LONG_PATIENCE_S
        except _failed:
            self._is_off = True


def _compile() -> None:
    try:
        _state["module"] = load()
    except _failed:
        return


def forwarding_table(header: str) -> str:
    """Return a class `Forward` that passes on every function of PyTorch's `PyInterpreterVTable` but those of `_OURS`.

    `header` is the text of `PyInterpreter.h`: the functions differ from version to version.
    """
    start = header.index("struct C10_API PyInterpreterVTable")
    body = re.sub(r"//[^\n]*", "", header[start : header.index("struct C10_API PyInterpreter {")])
    lines = []
    for result, name, parameters in _METHOD.findall(body):
        named = [_named(part, number) for number, part in enumerate(_split(parameters))]
        arguments = ", ".join(f"a{number}" for number in range(len(named)))
        call = f"{'jumar::' if name in _OURS else 'original->'}{name}({arguments})"
        lines.append(f"  {result.strip()} {name}({', '.join(named)}) const override {{ return {call}; }}")
    return "\n".join((
        "namespace { using namespace c10; using namespace c10::impl;",
        "struct Forward final : PyInterpreterVTable {",
        "  const PyInterpreterVTable* original;",
        "  explicit Forward(const PyInterpreterVTable* given) : original(given) {}",
        *lines,
        "}; }",
    ))  # fmt: skip


def _split(parameters: str) -> list[str]:
    return [part for text in parameters.split(",") if (part := " ".join(text.split()))]


def _named(parameter: str, number: int) -> str:
    """Return a parameter with its name, if it has one, replaced by a number."""
    words = re.match(r"(.*[\s*&])(\w+)$", parameter)
    is_name = words is not None and words[1].strip() not in {"const", ""} and "::" not in (words[2] if words else "")
    return f"{words[1] if words and is_name else parameter + ' '}a{number}"


def _options() -> dict[str, Any]:
    include = _TORCH / "include"
    header = (include / "c10/core/impl/PyInterpreter.h").read_text("utf-8")
    places = [include, include / "torch/csrc/api/include", sysconfig.get_paths()["include"]]
    flags = [f"-I{place}" for place in places]
    flags += [f"-L{_TORCH / 'lib'}", "-Wl,--no-as-needed", "-ltorch_python", "-ltorch_cpu", "-lc10"]
    flags += ["-O2", "-ftree-vectorize", "-std=c++20", f"-DBUILT_FOR_{re.sub(r'[^0-9a-zA-Z]', '_', torch.__version__)}"]
    if "avx512f" in features():
        flags.append("-mprefer-vector-width=512")
    return {"flags": flags, "made": {"forward.hpp": forwarding_table(header)}}


def cached() -> bool:
    """Return whether `load` takes the module from the cache. Raises OSError and ValueError as it does."""
    return cached_library(_SOURCE, **_options()) is not None


def load() -> Any:
    """Return the extension module, compiled now (half a minute) or taken from the cache.

    Raises CompilerError when it cannot be compiled here, OSError, ValueError and ImportError when PyTorch is another
    than it was written for.
    """
    path = compiled(_SOURCE, **_options())
    loader = ExtensionFileLoader("observe", str(path))
    spec = importlib.util.spec_from_loader("observe", loader)
    if spec is None:
        raise ImportError(f"{path} is no module")
    return importlib.util.module_from_spec(spec)
