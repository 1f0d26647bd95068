"""Any bytes at all: what is converted keeps every byte outside the edits, what cannot be read is copied and told."""

from __future__ import annotations

import ast
import codecs
import sys
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jumar.convert import ConvertOptions, Failure, Outcome, Skip, Success, convert_source
from jumar.convert.engine.file import triggers
from jumar.convert.model.project import ALONE
from jumar.convert.syntax.deep import is_too_deep, with_large_stack

PLAIN = "import torch\nx.cuda()\n"


def result(data: bytes) -> Outcome:
    outcome = convert_source(data, "a.py")
    assert outcome.before == data
    if not isinstance(outcome, Success):
        assert outcome.after == data
    return outcome


READABLE = {
    "BOM": codecs.BOM_UTF8 + PLAIN.encode(),
    "CRLF": PLAIN.replace("\n", "\r\n").encode(),
    "CR": PLAIN.replace("\n", "\r").encode(),
    "mixed line ends": b"import torch\r\ny = 1\rx.cuda()\nz = 2\r\n",
    "no last line end": PLAIN.encode().rstrip(),
    "form feed": b"import torch\n\x0c\nx.cuda()\n\x0c",
    "tabs": b"import torch\nif x:\n\tx.cuda()\t# tab\t\n        \n",
    "GBK": "# coding: gbk\nimport torch\n# 设备\nx.cuda()  # 一\n".encode("gbk"),
    "GB18030": "# -*- coding: gb18030 -*-\nimport torch\nx.cuda('\u20ac')\n".encode("gb18030"),
    "Latin-1": "#!/usr/bin/python\n# vim: set fileencoding=latin-1 :\nimport torch\nx.cuda()  # é\n".encode("latin-1"),
    "Shift JIS": "# coding: shift_jis\nimport torch\nx.cuda()  # 表示\n".encode("shift_jis"),
    "trailing blanks": b"import torch   \n\n\n   \nx.cuda()   \n\n\n",
}


@pytest.mark.parametrize("name", READABLE)
def test_every_byte_outside_the_edits_stays(name: str) -> None:
    data = READABLE[name]
    outcome = result(data)
    assert isinstance(outcome, Success)
    line = next(line for line in outcome.after.splitlines(keepends=True) if b"torch_npu" in line)
    assert outcome.after.replace(line, b"", 1).replace(b"npu", b"cuda") == data


UNREADABLE = {
    "GBK without a declaration": "import torch\n# 设备\nx.cuda()\n".encode("gbk"),
    "a declaration that is wrong": "# coding: ascii\nx = 'é'\nx.cuda()\n".encode(),
    "an unknown encoding": b"# coding: klingon\nx.cuda()\n",
    "UTF-16": PLAIN.encode("utf-16"),
    "UTF-32": PLAIN.encode("utf-32"),
    "null bytes": b"x.cuda()\0\n",
    "Python 2": b"import torch\nprint 'x', x.cuda()\nexec 'y' in {}\n",
    "backticks": b"x = `y.cuda()`\n",
    "a template": b"import {{ cookiecutter.package }}\nx.cuda()\n",
    "blocks of a template": b"{% if cuda %}\nx.cuda()\n{% endif %}\n",
    "a magic line": b"%matplotlib inline\nx.cuda()\n",
    "a shell line": b"!pip install torch\nx.cuda()\n",
    "mixed indentation": b"if x:\n\ty.cuda()\n        z\n",
    "a conflict": b"<<<<<<< HEAD\nx.cuda()\n=======\n>>>>>>> b\n",
    "cut in the middle": PLAIN.encode()[:-2],
    "a string without an end": b"x = '''cuda\n",
    "syntax of a later Python": b"x.cuda()\nmatch x:\n    case 1 if y else: pass\n",
}


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("with_cuda", [True, False])
def test_what_cannot_be_read_is_kept_and_told(name: str, with_cuda: bool) -> None:
    data = UNREADABLE[name] if with_cuda else UNREADABLE[name].replace(b"cuda", b"abcd")
    outcome = result(data)
    assert isinstance(outcome, Failure)
    assert [finding.code for finding in outcome.findings] == ["JM115"]
    assert outcome.error.count(";") >= 1


@pytest.mark.parametrize("data", [b"", b"\n", b"\xef\xbb\xbf", b"# cuda", b"\x0c", b"\\\n", b"pass;", b"# cuda\r"])
def test_next_to_nothing_is_left_alone(data: bytes) -> None:
    assert result(data).after == data


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="that Python reads it itself")
def test_syntax_that_only_libcst_reads_is_converted() -> None:
    outcome = result(b"import torch\nclass A[T]:\n    pass\nx.cuda()\n")
    assert isinstance(outcome, Success)
    assert b"x.npu()" in outcome.after


DEEP = {
    "brackets": lambda n: "[" * n + "]" * n,
    "calls": lambda n: "f(" * n + ")" * n,
    "powers": lambda n: "**".join(["1"] * n),
    "attributes": lambda n: "a" + ".b" * n,
    "not": lambda n: "not " * n + "a",
}


@pytest.mark.parametrize("shape", DEEP)
@pytest.mark.parametrize("depth", [1500, 100_000])
def test_deep_nesting_is_refused_and_never_ends_the_process(shape: str, depth: int) -> None:
    """LibCST's parser overflows an ordinary stack on each of these, which would end the whole conversion."""
    start = time.monotonic()
    outcome = result(f"import torch\nx = {DEEP[shape](depth)}\ny.cuda()\n".encode())
    assert isinstance(outcome, Failure)
    assert "nested too deeply" in outcome.error
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("shape", DEEP)
def test_nesting_that_people_write_is_converted(shape: str) -> None:
    assert b"y.npu()" in result(f"import torch\nx = {DEEP[shape](60)}\ny.cuda()\n".encode()).after


def test_wide_sources_are_not_deep() -> None:
    wide = ["[" + "(1, -2.0 + 3), " * 20_000 + "]", "{" + "'a': f(b.c),\n" * 20_000 + "}", '":( " ' * 1000]
    assert [is_too_deep(f"x = {text}\n") for text in wide] == [False] * 3


def test_a_call_on_a_large_stack_gives_back_results_and_errors() -> None:
    assert with_large_stack(str.upper, "a") == "A"
    with pytest.raises(ZeroDivisionError):
        with_large_stack(lambda text: 1 // len(text), "")


lines = st.sampled_from(
    [
        "import torch", "from torch import cuda", "x = y.cuda()", "if torch.cuda.is_available():\n    pass",
        "d = 'cuda:0'", "# cuda 设备", "s = '''\n  cuda\n'''", "f(a,\n  # why\n  b.cuda(),\n)",
        "def g(cuda=None): return cuda",
        "z = {'cuda': 1}", "w = \\\n  v", "q = 1", "é = 'ü'", "lambda: x.is_cuda", "", "\x0c",
        "with torch.cuda.stream(s): x", "dist.init_process_group('nccl')", "u = f'cuda:{i}'",
    ]
)  # fmt: skip
ENCODINGS = ["utf-8", "utf-8-sig", "gbk", "latin-1", "gb18030", "iso8859-15"]


@st.composite
def sources(draw: st.DrawFn) -> bytes:
    encoding = draw(st.sampled_from(ENCODINGS))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    body = draw(st.lists(lines, max_size=8))
    head = [] if encoding.startswith("utf-8") else [f"# -*- coding: {encoding} -*-"]
    text = "\n".join([*head, *body]) + draw(st.sampled_from(["", "\n", "\n\n"]))
    try:
        data = text.replace("\n", end).encode(encoding)
    except UnicodeEncodeError:
        assume(False)
    return data


@given(sources())
@settings(max_examples=150, deadline=None)
def test_an_edited_file_is_the_original_with_its_edits_and_nothing_else(data: bytes) -> None:
    """Each finding's edit shows whole lines: putting the old ones back must give the very bytes again."""
    outcome = result(data)
    if not isinstance(outcome, Success) or not outcome.changed:
        return
    again = convert_source(outcome.after, "a.py")
    assert again.after == outcome.after
    kept_before = {line for line in data.splitlines() if not any(word in line.lower() for word in (b"cuda", b"nccl"))}
    assert kept_before <= set(outcome.after.splitlines()) | {b""}
    assert outcome.after.startswith(codecs.BOM_UTF8) == data.startswith(codecs.BOM_UTF8)
    assert data.endswith((b"\n", b"\r")) == outcome.after.endswith((b"\n", b"\r"))
    assert (b"\r\n" in data) == (b"\r\n" in outcome.after)
    ast.parse(outcome.after)


@given(st.binary(max_size=60), st.booleans())
@settings(max_examples=200, deadline=None)
def test_no_bytes_make_it_raise(data: bytes, with_cuda: bool) -> None:
    outcome = result(b"x.cuda()\n" + data if with_cuda else data)
    assert isinstance(outcome, (Success, Skip, Failure))


@given(sources(), st.integers(0, 200), st.binary(max_size=4))
@settings(max_examples=150, deadline=None)
def test_damaged_sources_are_converted_or_kept(data: bytes, at: int, put: bytes) -> None:
    result(data[:at] + put + data[at + 1 :])


@given(sources())
@settings(max_examples=100, deadline=None)
def test_a_file_that_no_trigger_concerns_is_one_that_no_rule_speaks_of(data: bytes) -> None:
    """Rules that the look at the bytes leaves out would have said nothing: converting with all gives the same."""
    silent = triggers(ConvertOptions()).silent(data, "a.py", ALONE)
    outcome = result(data)
    if silent is None:
        assert isinstance(outcome, (Skip, Failure))
    else:
        assert silent.isdisjoint(finding.code for finding in outcome.findings)
