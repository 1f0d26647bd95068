"""Names are followed through aliases and scopes, and stand at their exact place."""

from __future__ import annotations

import sys
from textwrap import dedent

import pytest

from jumar.convert.syntax.source import SourceError, parse


def names(source: str) -> list[str]:
    return [reference.name for reference in parse(dedent(source)).references if reference.certain]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch\ntorch.cuda.x()", "torch.cuda.x"),
        ("import torch as t\nt.cuda.x()", "torch.cuda.x"),
        ("import torch.cuda.amp as amp\namp.autocast()", "torch.cuda.amp.autocast"),
        ("import torch.cuda.amp\ntorch.cuda.amp.autocast()", "torch.cuda.amp.autocast"),
        ("from torch import cuda\ncuda.x()", "torch.cuda.x"),
        ("from torch import cuda as c\nc.x()", "torch.cuda.x"),
        ("from torch.cuda.amp import autocast as ac\nac()", "torch.cuda.amp.autocast"),
        ("import torch\nc = torch.cuda\nc.x()", "torch.cuda.x"),
        ("import torch\nc: object = torch.cuda\nc.x()", "torch.cuda.x"),
        ("def f():\n    c.x()\nfrom torch import cuda as c", "torch.cuda.x"),
        ("def f():\n    global c\n    import torch.cuda as c\nc.x()", "torch.cuda.x"),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\ntorch.cuda.x()", "torch.cuda.x"),
        ("from . import ops\nops.x()", ".ops.x"),
        ("from ..a import ops\nops.x()", "..a.ops.x"),
    ],
)
def test_a_name_is_followed_to_what_it_stands_for(source: str, expected: str) -> None:
    assert expected in names(source)


@pytest.mark.parametrize(
    "source",
    [
        "from torch import cuda\ndef f(cuda):\n    cuda.x()",
        "from torch import cuda\n[cuda.x() for cuda in y]",
        "from torch import cuda\nlambda cuda: cuda.x()",
        "from torch import cuda\ndef f():\n    cuda = 1\n    cuda.x()",
        "from torch import cuda\ndef f():\n    for cuda in y:\n        cuda.x()",
        "from torch import cuda\ndef f():\n    with y as cuda:\n        cuda.x()",
        "from torch import cuda\ndef f():\n    def cuda(): ...\n    cuda.x()",
        "class A:\n    from torch import cuda\n    def f(self):\n        cuda.x()",
        "from torch import cuda\ndef f(y):\n    match y:\n        case [cuda]:\n            cuda.x()",
    ],
)
def test_a_shadowed_name_is_not_resolved(source: str) -> None:
    assert "torch.cuda.x" not in names(source)


def test_rival_bindings_are_candidates_and_not_certain() -> None:
    source = parse("from torch import cuda\nif y:\n    cuda = make()\ncuda.x()\n")
    assert [(r.name, r.certain) for r in source.references if r.name.endswith(".x")] == [("torch.cuda.x", False)]


def test_bindings_that_agree_are_certain() -> None:
    source = (
        "try:\n    from torch.amp import autocast\nexcept ImportError:\n    from torch.amp import autocast\nautocast()"
    )
    assert "torch.amp.autocast" in names(source)


def test_a_comprehension_reads_its_first_iterable_outside() -> None:
    assert "torch.x" in names("import torch\n[torch for torch in torch.x]")


def test_uses_have_kind_and_position() -> None:
    source = parse("import torch as t\ny = t.zeros(3)\nfor i in y:\n\ty.cuda(t.float)\n")
    found = [(use.name, use.kind, use.line, use.column) for use in source.uses() if not use.name.startswith("builtins")]
    assert found == [
        ("torch", "import", 1, 8),
        ("torch.zeros", "call", 2, 5),
        ("torch.float", "reference", 4, 9),
        ("cuda", "method", 4, 4),
    ]


def test_positions_are_right_inside_f_strings_and_after_wide_characters() -> None:
    source = parse("import torch\nx = 'é漢😀', f'{torch.a!r:>{torch.b}}'\n")
    found = [(use.name, use.column) for use in source.uses() if use.kind == "reference"]
    assert found == [("torch.a", 15), ("torch.b", 27)]


def test_a_method_of_an_unknown_object_is_a_bare_name() -> None:
    methods = [node.attr.value for node in parse("import torch\nnet(y).cuda().to(torch.cuda.current_device())").methods]
    assert methods == ["cuda", "to"]


@pytest.mark.parametrize(
    ("source", "line", "column"),
    [("x = 1\nprint 'a'\n", 2, 1), ("def f(:\n    pass\n", 1, 7), (b"# coding: utf-8\nx = '\xff'\n", 2, 6)],
)
def test_what_is_not_python_says_where(source: str | bytes, line: int, column: int) -> None:
    with pytest.raises(SourceError) as caught:
        parse(source)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_an_unknown_encoding_is_named() -> None:
    with pytest.raises(SourceError, match="unknown encoding"):
        parse(b"# coding: klingon\n")


def test_deep_nesting_is_an_error_and_no_crash() -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # other tests' imports may have raised it
    try:
        with pytest.raises(SourceError, match="nested too deeply"):
            parse("x = " + "**".join(["1"] * 600) + "\n")
    finally:
        sys.setrecursionlimit(limit)
