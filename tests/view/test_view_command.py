"""`jumar view` as a program: it tells the address, ends on Ctrl-C, and refuses in one sentence."""

from __future__ import annotations

import builtins
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jumar.cli.main import main
from jumar.view.server.serving import free_socket

pytest.importorskip("uvicorn", reason="the workbench needs jumar[view]")


@contextmanager
def running(folder: Path, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """Start the command and yield the process, the address that it tells, and the lines before."""
    command = [sys.executable, "-m", "jumar", "view", str(folder), "--no-browser", "--port", str(port)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    lines: list[str] = []
    try:
        assert process.stderr is not None
        while not (found := re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", "".join(lines))):
            line = process.stderr.readline()
            assert line, "".join(lines)
            lines.append(line)
        yield process, found[0], lines
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]
        process.stderr.close()


def test_it_answers_at_the_address_it_tells_and_ends_on_ctrl_c(results: Path) -> None:
    with running(results) as (process, address, _):
        with urllib.request.urlopen(address, timeout=20) as answer:
            assert answer.status == 200
            assert "HttpOnly" in answer.headers["Set-Cookie"]
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        assert time.monotonic() - began < 5
        assert "Traceback" not in process.stderr.read()  # type: ignore[union-attr]


def test_it_takes_the_next_port_where_one_is_taken_and_says_so(results: Path) -> None:
    with free_socket(0) as taken:
        port = taken.getsockname()[1]
        with running(results, port) as (_, address, lines):
            assert f":{port}/" not in address
            assert f"Port {port} is taken" in "".join(lines)


def test_two_servers_have_two_tokens(results: Path) -> None:
    with running(results) as (_, first, _), running(results) as (_, second, _):
        assert first.partition("token=")[2] != second.partition("token=")[2]


def test_it_changes_nothing_in_the_folder(results: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in results.rglob("*") if path.is_file()}
    with running(results) as (_, address, _):
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        opener.open(address, timeout=20).close()
        root = address.partition("?")[0]
        page = opener.open(root, timeout=20).read().decode()
        for item in sorted(set(re.findall(r"/item/\w+", page))):
            opener.open(root.rstrip("/") + item, timeout=20).close()
    assert {path: path.stat().st_mtime_ns for path in results.rglob("*") if path.is_file()} == before


def test_what_is_no_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(tmp_path / "absent"), "--no-browser"]) == 2
    assert "is not there" in capsys.readouterr().err


def test_without_its_packages_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = builtins.__import__

    def absent(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "uvicorn":
            raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    assert main(["view", str(tmp_path), "--no-browser"]) == 2
    assert "pip install 'jumar[view]'" in capsys.readouterr().err
