"""Tests of `jumar.base.native`."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jumar.base.host import Disk, Memory
from jumar.base.native import CompilerError, cached_library, compiled, compiler, instructions, was_cut

needs_compiler = pytest.mark.skipif(not compiler(), reason="no C++ compiler is installed")


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "answer.cpp"
    path.write_text('#include "made.hpp"\nextern "C" int answer() { return ANSWER; }\n')
    return path


def answer(path) -> int:
    return ctypes.CDLL(str(path)).answer()


@needs_compiler
def test_a_library_is_compiled_once_and_again_when_what_it_is_made_of_changes(source, monkeypatch) -> None:
    first = compiled(source, made={"made.hpp": "#define ANSWER 41\n"})
    assert answer(first) == 41
    written = first.stat().st_mtime_ns
    assert compiled(source, made={"made.hpp": "#define ANSWER 41\n"}) == first
    assert first.stat().st_mtime_ns == written
    assert answer(compiled(source, made={"made.hpp": "#define ANSWER 42\n"})) == 42
    assert sorted(path.suffix for path in first.parent.iterdir()) == [".so", ".so"]


@needs_compiler
def test_what_does_not_compile_is_said_in_one_sentence_and_leaves_nothing(source, tmp_path) -> None:
    with pytest.raises(CompilerError, match=r"could not compile answer\.cpp .*made\.hpp.* set CXX"):
        compiled(source)
    assert list((tmp_path / "cache" / "jumar" / "native").iterdir()) == []


@needs_compiler
def test_a_cache_that_cannot_be_written_is_done_without(source, monkeypatch, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert answer(compiled(source, made={"made.hpp": "#define ANSWER 7\n"})) == 7


def test_without_a_compiler_that_is_said(source, monkeypatch) -> None:
    monkeypatch.setenv("CXX", os.devnull)
    with pytest.raises(CompilerError, match="install g\\+\\+ or set CXX"):
        compiled(source)


@needs_compiler
@pytest.mark.parametrize("name", ["", "relative"])
def test_without_a_home_folder_a_library_is_compiled_and_not_kept(source, monkeypatch, name) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    monkeypatch.setenv("XDG_CACHE_HOME", name)
    assert cached_library(source, made={"made.hpp": "#define ANSWER 3\n"}) is None
    assert answer(compiled(source, made={"made.hpp": "#define ANSWER 3\n"})) == 3


def test_what_a_system_says_besides_is_no_instruction(monkeypatch) -> None:
    flags = {"avx512_vnni", "sse4_2", "asimd", "hypervisor", "ibpb", "constant_tsc", "user_shstk", "flush_l1d"}
    monkeypatch.setattr("jumar.base.native.features", lambda: frozenset(flags))
    assert instructions() == ["asimd", "avx512_vnni", "sse4_2"]


COMPILER = """#!/bin/sh
echo start $$ >> {log}
{body}
while [ $# -gt 0 ]; do if [ "$1" = -o ]; then echo library > "$2"; fi; shift; done
echo end $$ >> {log}
"""


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A compiler that notes when it starts and ends; `body` is what it does in between."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def set_up(body: str) -> Path:
        (tmp_path / "compiler").write_text(COMPILER.format(log=tmp_path / "log", body=body))
        (tmp_path / "compiler").chmod(0o755)
        monkeypatch.setenv("CXX", str(tmp_path / "compiler"))
        for name in "abcd":
            (tmp_path / f"{name}.cpp").write_text(name)
        return tmp_path / "log"

    return set_up


def test_one_library_is_compiled_at_a_time(tmp_path, log) -> None:
    file = log("sleep 0.1")
    names = ["a", "b", "c", "d", "a", "b"]
    with ThreadPoolExecutor(len(names)) as pool:
        found = list(pool.map(lambda name: compiled(tmp_path / f"{name}.cpp"), names))
    assert found[0] == found[4]
    words = [line.split() for line in file.read_text().splitlines()]
    assert [what for what, _ in words] == ["start", "end"] * 4
    assert [words[at][1] == words[at + 1][1] for at in range(0, 8, 2)] == [True] * 4


CALLER = """
import sys
from pathlib import Path
from jumar.base.host import Disk, Memory
from jumar.base.native import CompilerError, cached_library, compiled, compiler, instructions, was_cut
compiled(Path(sys.argv[1]))
"""


def wait_for(condition) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("it did not come to be")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_process_that_ends_takes_its_compilers_and_their_files_along(tmp_path, log, how) -> None:
    """A compiler is a tree of processes, and none of them hears of the end of the one that wanted the library."""
    file = log(f"sleep 60 & echo $! >> {tmp_path}/grandchild; wait")
    caller = subprocess.Popen([sys.executable, "-c", CALLER, str(tmp_path / "a.cpp")], stderr=subprocess.DEVNULL)
    wait_for(lambda: (tmp_path / "grandchild").is_file() and (tmp_path / "grandchild").read_text().endswith("\n"))
    caller.send_signal(how)
    caller.wait()
    started = [int(file.read_text().split()[1]), int((tmp_path / "grandchild").read_text())]
    wait_for(lambda: not any(is_running(pid) for pid in started))
    folder = tmp_path / "cache" / "jumar" / "native"
    wait_for(lambda: [path.suffix for path in folder.iterdir()] == [".cut"])
    assert was_cut(tmp_path / "a.cpp")
    log("true")
    assert compiled(tmp_path / "a.cpp").is_file()
    assert not was_cut(tmp_path / "a.cpp")
    assert [path.suffix for path in folder.iterdir()] == [".so"]


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]
    except OSError:
        return False


def test_what_a_build_left_whose_every_process_was_killed_is_removed_by_the_next(tmp_path, log) -> None:
    log("true")
    left = tmp_path / "cache" / "jumar" / "native" / "build-left"
    left.mkdir(parents=True)
    compiled(tmp_path / "a.cpp")
    assert not left.exists()


def test_a_compiler_that_takes_too_long_is_ended(tmp_path, log, monkeypatch) -> None:
    log("sleep 60")
    monkeypatch.setattr("jumar.base.native.TIMEOUT_S", 0.2)
    with pytest.raises(CompilerError, match=r"it took more than 0\.2 s"):
        compiled(tmp_path / "a.cpp")
    assert list((tmp_path / "cache" / "jumar" / "native").iterdir()) == []


@pytest.mark.parametrize("lacking", ["memory", "disk"])
def test_no_compiler_is_started_that_has_no_room(tmp_path, log, monkeypatch, lacking) -> None:
    file = log("true")
    small = {
        "memory": lambda: Memory(available_bytes=1 << 20),
        "disk": lambda path: Disk(path=path, total_bytes=9, free_bytes=1),
    }
    monkeypatch.setattr(f"jumar.base.process.compilers.{lacking}", small[lacking])
    with pytest.raises(CompilerError, match=r"a\.cpp is not compiled: a compiler needs .* free some"):
        compiled(tmp_path / "a.cpp")
    assert not file.exists()
    assert list((tmp_path / "cache" / "jumar" / "native").iterdir()) == []


def test_a_library_that_others_may_have_left_is_not_taken(tmp_path, log) -> None:
    """A library is code, and its name in the cache can be known."""
    log("true")
    known = compiled(tmp_path / "a.cpp")
    known.write_text("planted")
    known.parent.chmod(0o777)
    assert cached_library(tmp_path / "a.cpp") is None
    found = compiled(tmp_path / "a.cpp")
    assert (found != known, found.read_text()) == (True, "library\n")
    known.parent.chmod(0o700)
    assert cached_library(tmp_path / "a.cpp") == known
    known.chmod(0o666)
    assert cached_library(tmp_path / "a.cpp") is None
