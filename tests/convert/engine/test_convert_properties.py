"""Properties of conversion over generated programs."""

from __future__ import annotations

import ast

from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.convert import ConvertOptions, Skip, Success, convert_source

IMPORTS = st.sampled_from(
    [
        "import torch", "import torch as t", "from torch import cuda", "from torch import cuda as c",
        "import torch.cuda.amp as amp", "from torch.cuda.amp import autocast, GradScaler",
        "from torch.cuda import Event, nvtx", "import torch.nn as nn", "import torch.distributed as dist",
        "try:\n    import torch\nexcept ImportError:\n    torch = None", "import apex", "from .x import cuda",
    ]
)  # fmt: skip
ATOMS = st.sampled_from(
    [
        "'cuda'", "'cuda:0'", "f'cuda:{x}'", "'nccl'", "torch.cuda", "torch.cuda.is_available()", "x.cuda()",
        "x.is_cuda",
        "x.cuda(0)", "t.cuda.Stream()", "cuda.current_device()", "c.nvtx", "amp.autocast()", "autocast(x)", "autocast",
        "GradScaler(enabled=x)", "torch.amp.GradScaler()", "x", "1", "'cpu'", "args.cuda", "x.device.type", "device",
        "torch.cuda.OutOfMemoryError", "torch.cuda.CUDAGraph()", "Event()", "{'cuda': 1}", "'/cuda/x'", "torch.load(x)",
    ]
)  # fmt: skip


def combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(inner, inner)
    return st.one_of(
        pair.map(lambda p: f"({p[0]} if {p[1]} else {p[0]})"),
        pair.map(lambda p: f"f({p[0]},  # why\n    device={p[1]})"),
        pair.map(lambda p: f"({p[0]} == {p[1]})"),
        pair.map(lambda p: f"({p[0]} and not {p[1]})"),
        pair.map(lambda p: f"[{p[0]}, {p[1]}]"),
        inner.map(lambda e: f"({e}).cuda({e})"),
        inner.map(lambda e: f"(lambda cuda: {e})"),
        inner.map(lambda e: f"[{e} for torch in {e}]"),
    )


EXPRESSIONS = st.recursive(ATOMS, combine, max_leaves=6)


def statement(expression: str) -> st.SearchStrategy[str]:
    return st.sampled_from(
        [
            expression, f"device = {expression}", f"x = {expression}  # cuda",
            f"if {expression}:\n    x = {expression}",
            f"def f(cuda, device={expression}):\n    return {expression}", f"with f({expression}) as cuda:\n    pass",
            f"class A:\n    def cuda(self):\n        return {expression}", f"torch = {expression}",
            f"@f({expression})\ndef g(): ...",
            f"parser.add_argument('--device', default={expression})", f"assert {expression}, 'cuda'",
        ]
    )  # fmt: skip


PROGRAMS = st.tuples(
    st.lists(IMPORTS, max_size=4), st.lists(EXPRESSIONS.flatmap(statement), min_size=1, max_size=5), st.booleans()
).map(lambda parts: "\n".join([*parts[0], *parts[1]]) + ("\n" if parts[2] else ""))


@settings(max_examples=250, deadline=None, derandomize=True)
@given(PROGRAMS, st.booleans(), st.sampled_from(["\n", "\r\n"]))
def test_a_converted_program_parses_and_converts_to_itself(program: str, unsafe: bool, newline: str) -> None:
    before = program.replace("\n", newline).encode()
    options = ConvertOptions(unsafe=unsafe)
    first = convert_source(before, "a.py", options)
    assert isinstance(first, (Success, Skip))
    compile(first.after, "a.py", "exec", flags=ast.PyCF_ONLY_AST)
    assert convert_source(first.after, "a.py", options).after == first.after
    comments = [line for line in program.splitlines() if line.endswith("# why")]
    assert first.after.decode().count("# why") == len(comments)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(PROGRAMS)
def test_a_program_without_cuda_stays(program: str) -> None:
    plain = program
    for word, other in (
        ("cuda", "host"),
        ("CUDA", "HOST"),
        ("nccl", "gloo"),
        ("apex", "flat"),
        ("GradScaler", "Scale"),
    ):
        plain = plain.replace(word, other)
    result = convert_source(plain, "a.py")
    assert result.after == plain.encode()
