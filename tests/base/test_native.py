"""Tests of `jumar.base.native`."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from jumar.base.native import CompilerError, cached_library, compiled, compiler, instructions

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
