"""Bytes outside the edits survive: encodings, marks, line ends, comments, layout."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.convert import Success, convert_source
from jumar.convert.model.text import SourceText

BODY = "x = 1  # é 中文\ny = z.cuda(\n    0,  # keep\n)\n"
EXPECTED = "x = 1  # é 中文\ny = z.npu(\n    0,  # keep\n)\n"


@pytest.mark.parametrize("encoding", ["utf-8", "gbk", "utf-8-sig", "gb18030"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("ends", [True, False])
def test_encoding_line_ends_and_a_missing_last_one_survive(encoding: str, newline: str, ends: bool) -> None:
    head = f"# -*- coding: {encoding} -*-\n" if not encoding.endswith("sig") else ""

    def make(body: str) -> bytes:
        text = head + (body if ends else body[:-1])
        return text.replace("\n", newline).encode(encoding)

    result = convert_source(make(BODY), "a.py")
    assert isinstance(result, Success)
    assert result.after == make(EXPECTED)


def test_a_byte_order_mark_survives() -> None:
    result = convert_source(codecs.BOM_UTF8 + b"z.cuda()\n", "a.py")
    assert result.after == codecs.BOM_UTF8 + b"z.npu()\n"


def test_mixed_line_ends_tabs_form_feeds_and_trailing_blanks_survive() -> None:
    before = b"if a:\r\n\tb.cuda()   \r\n\x0c\nc = 'x\\\ny'\n   # odd\n\n\nd.cuda() ;  e\\\n.cuda()\n#"
    assert convert_source(before, "a.py").after == before.replace(b".cuda()", b".npu()")


def test_the_added_import_takes_the_files_line_end() -> None:
    after = convert_source(b"import torch\r\ntorch.cuda.x = 1\r\ny.cuda()\r\n", "a.py").after
    assert after.startswith(b"import torch\r\nimport torch_npu  # noqa: F401\r\n")


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_positions_and_lines_agree_with_the_text(text: str) -> None:
    source = SourceText.of(text)
    for offset in range(len(text) + 1):
        line, column = source.position(offset)
        assert source.line_start(offset) == offset - column + 1
        assert line == 1 or text[source.line_start(offset) - 1] in "\r\n"
        assert source.line_end(offset) >= offset


@given(st.binary(max_size=60))
def test_any_bytes_give_an_outcome_and_never_an_error(data: bytes) -> None:
    result = convert_source(data + b"\n# cuda\n", "a.py")
    assert result.before == data + b"\n# cuda\n"
    assert result.after == result.before
