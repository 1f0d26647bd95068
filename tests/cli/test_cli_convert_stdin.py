"""`jumar convert -i -`: one source from stdin to stdout, findings on stderr."""

from __future__ import annotations

import io
import json

import pytest

from jumar.cli.main import main


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    def give(data: bytes) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


def convert(*words: str) -> int:
    return main(["convert", "-i", "-", *words])


def test_the_converted_source_is_all_of_stdout(feed, capfdbinary: pytest.CaptureFixture[bytes]) -> None:  # type: ignore[no-untyped-def]
    feed("# -*- coding: gbk -*-\r\nx.cuda()  # 中文\r\nimport apex".encode("gbk"))
    assert convert() == 0
    output = capfdbinary.readouterr()
    assert output.out == "# -*- coding: gbk -*-\r\nx.npu()  # 中文\r\nimport apex".encode("gbk")
    assert b"Left for you: 1 warning" in output.err


def test_a_source_without_cuda_comes_back_and_nothing_is_said(feed, capfdbinary: pytest.CaptureFixture[bytes]) -> None:  # type: ignore[no-untyped-def]
    feed(b"x = 1\n")
    assert convert() == 0
    assert capfdbinary.readouterr() == (b"x = 1\n", b"")


def test_the_name_says_the_kind_and_stands_in_messages(feed, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    feed(b"export CUDA_VISIBLE_DEVICES=0\n")
    assert convert("--stdin-filename", "run.sh", "--unsafe") == 0
    assert "ASCEND_RT_VISIBLE_DEVICES" in capsys.readouterr().out
    feed(b"print 1\n")
    assert convert("--stdin-filename", "lib/old.py") == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("jumar: lib/old.py, line 1, column 1: it is not valid Python")


def test_a_file_of_no_kind_comes_back(feed, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    feed(b"cuda\n")
    assert convert("--stdin-filename", "a.unknown", "-q") == 0
    assert capsys.readouterr() == ("cuda\n", "")


def test_a_diff_or_a_document_takes_the_place_of_the_source(feed, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    feed(b"x.cuda()\n")
    assert convert("--diff", "-q") == 0
    assert capsys.readouterr().out.endswith("@@ -1 +1 @@\n-x.cuda()\n+x.npu()\n")
    feed(b"x.cuda()\n")
    assert convert("--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["source"], document["num_edits"], document["changed"]) == ("x.npu()\n", 1, True)


@pytest.mark.parametrize(("fail_on", "code"), [("warning", 1), ("error", 0)])
def test_the_exit_code_follows_the_worst_finding(fail_on: str, code: int, feed) -> None:  # type: ignore[no-untyped-def]
    feed(b"import apex\n")
    assert convert("--fail-on", fail_on) == code
