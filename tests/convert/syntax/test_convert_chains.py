"""Long chains of operators are read piece by piece; form feeds before statements are kept."""

from __future__ import annotations

import random

import libcst as cst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.convert import Success, convert_source
from jumar.convert.syntax import chains
from jumar.convert.syntax.source import parse

SHAPES = {
    "sum of calls": lambda n: " + ".join(f"f({i}).cuda()" for i in range(n)),
    "differences": lambda n: " - ".join(f"(a{i} * b)" for i in range(n)),
    "products": lambda n: " * ".join(f"a[{i}]" for i in range(n)),
    "and": lambda n: " and ".join(f"f({i})" for i in range(n)),
    "or of and": lambda n: " or ".join(f"a{i} and not b" for i in range(n)),
    "strings": lambda n: "(" + "\n  + ".join(f"'cuda{i}'" for i in range(n)) + ")",
    "with comments": lambda n: "(" + " # + (\n  | ".join(f"a{i}" for i in range(n)) + ")",
    "within an argument": lambda n: "g(1, " + " + ".join(f"f({i})" for i in range(n)) + ", k=2)",
    "within a chain": lambda n: " + ".join([*(["1"] * 150), "(" + " * ".join(["a.cuda()"] * 150) + ")", "2 / 3"]),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("operands", [80, 130])
def test_a_chain_is_the_same_text_and_every_name_keeps_its_place(shape: str, operands: int) -> None:
    text = f"import torch\nx = {SHAPES[shape](operands)}\ny.cuda()\n"
    source = parse(text)
    assert source.module.code == text
    assert all(source.code(node) == node.value for node in source.nodes(cst.Name))
    assert all(source.code(node) == node.value for node in source.nodes(cst.Integer))


def test_the_parser_sees_no_long_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """LibCST's time grows with the square of a chain's length, so the longest it gets bounds the whole."""
    seen: list[str] = []
    native = cst.parse_module
    monkeypatch.setattr(chains.cst, "parse_module", lambda text: seen.append(text) or native(text))
    outcome = convert_source(f"import torch\nx = {SHAPES['sum of calls'](150)}\n", "a.py")
    assert isinstance(outcome, Success)
    assert outcome.after.count(b".npu()") == 150
    assert max(text.count("+") for text in seen) < chains.LONG


def test_a_chain_of_thousands_of_terms_is_not_too_deep() -> None:
    from jumar.convert.syntax.deep import is_too_deep

    assert not is_too_deep(f"x = {SHAPES['sum of calls'](1200)}\n")


operators = st.sampled_from([" + ", " - ", "*", " @ ", " | ", " and ", " or ", "\\\n + ", " << ", " % "])
operands = st.sampled_from(["a", "(b)", "f(c, d)", "-e", "(g + h)", "'s'", "x.cuda()", "[1, 2]", "(i and j)", "k ** 2"])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(operators, operands), min_size=3, max_size=8), st.integers(0, 1 << 30))
def test_random_chains_come_back_unchanged(parts: list[tuple[str, str]], seed: int) -> None:
    draw = random.Random(seed)
    text = "x = y" + "".join("".join(draw.choice(parts)) for _ in range(140)) + "\nz.cuda()\n"
    try:
        compile(text, "a", "exec")
    except (SyntaxError, RecursionError):
        return
    source = parse(text)
    assert source.module.code == text
    assert all(source.code(node) == node.value for node in source.nodes(cst.Name))


@pytest.mark.parametrize(
    "text",
    [
        "\fimport torch\nx.cuda()\n",
        "import torch\n\fx.cuda()\n",
        "import torch\nif x:\n\f    x.cuda()\n    y.cuda()\n",
        "import torch\nif x:\n    a\n  \f    x.cuda()\n",
        "import torch\nclass A:\n    a = 1\n\n\fclass B:\n    def f(self):\n\f        return x.cuda()\n",
        "import torch\ns = '''\n\fcuda'''\n\fx.cuda(); \fy.cuda()\n\f# end",
        "\f\f# -*- coding: utf-8 -*-\n \f import torch\n\fx.cuda()\n".replace(" \f import", " \fimport"),
        "import torch\r\n\fx.cuda()\r\n\f\r\n",
        "import torch\nf(\n\f  x.cuda(),\n\f)\n",
    ],
)
def test_form_feeds_stay_where_they_are(text: str) -> None:
    compile(text, "a", "exec")
    outcome = convert_source(text, "a.py")
    assert isinstance(outcome, Success)
    after = outcome.after.decode()
    compile(after, "a", "exec")
    lines = [line for line in after.split("\n") if "torch_npu" not in line]
    assert "\n".join(lines).replace(".npu()", ".cuda()") == text
    assert ".cuda()" not in after
