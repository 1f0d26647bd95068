"""What user rules make of sources: names that resolve, arguments, imports, and what is left with a reason."""

from __future__ import annotations

import json
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.base.errors import InputError
from jumar.base.findings import Finding
from jumar.convert import ConvertOptions, Success, convert_source
from jumar.convert.rules.order import rules_by_code
from jumar.convert.user_rules.load import loads
from jumar.convert.user_rules.model import UserRules

OTHERS = frozenset(rule.code for rule in rules_by_code().values()) - {"JM195", "JM107"}


def rules_of(document: Any) -> UserRules:
    return loads(json.dumps({"rules": document}).encode(), "rules.json")


def apply(document: Any, source: str, *, unsafe: bool = False, path: str = "train.py", **options: Any) -> Success:
    chosen = ConvertOptions(user_rules=rules_of(document), unsafe=unsafe, disable=OTHERS, **options)
    outcome = convert_source(dedent(source), path, chosen)
    assert isinstance(outcome, Success), outcome
    return outcome


def after(document: Any, source: str, **options: Any) -> str:
    return apply(document, source, **options).after.decode()


def own(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": "a", **fields}]


def function(old: str, new: str) -> dict[str, Any]:
    return {"FuncNameModifyRule": [{"old_name": old, "new_name": new}]}


def argument(name: str, index: int, new: str) -> dict[str, Any]:
    return {"ArgsModifyRule": [{"func_name": name, "arg_idx": index, "arg_new": new}]}


MODULE = {"ModuleNameModifyRule": [{"old_name": "gpu", "new_name": "npu", "parent_module": "ours"}]}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import ours.gpu\nours.gpu.load(1)\n", "import ours.npu\nours.npu.load(1)\n"),
        ("import ours.gpu as g\ng.load(1)\n", "import ours.npu as g\ng.load(1)\n"),
        ("from ours import gpu\ngpu.load(1)\n", "from ours import npu as gpu\ngpu.load(1)\n"),
        ("from ours import gpu as g, b\ng.f()\n", "from ours import npu as g, b\ng.f()\n"),
        ("from ours.gpu import load\nload()\n", "from ours.npu import load\nload()\n"),
        ("from ours.gpu.deep import *\n", "from ours.npu.deep import *\n"),
        ("import ours as o\nx = (o  # why\n    .gpu.f(1))\n", "import ours as o\nx = (o  # why\n    .npu.f(1))\n"),
        ("import ours\ndef f(ours):\n    return ours.gpu\n", "import ours\ndef f(ours):\n    return ours.gpu\n"),
        ("import theirs.gpu\ntheirs.gpu.f()\n", "import theirs.gpu\ntheirs.gpu.f()\n"),
        ("from . import gpu\ngpu.f()\n", "from . import npu as gpu\ngpu.f()\n"),
        ("from .gpu import f\n", "from .npu import f\n"),
    ],
)
def test_a_module_is_renamed_wherever_its_name_resolves_to_it(source: str, expected: str) -> None:
    assert after(MODULE, f"x = 'ours.gpu'\n{source}", path="ours/train.py") == f"x = 'ours.gpu'\n{expected}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import lib\nlib.func(1)\nmap(lib.func, x)\n", "import lib\nlib.new(1)\nmap(lib.new, x)\n"),
        ("from lib import func\nfunc(1)\n", "from lib import new as func\nfunc(1)\n"),
        ("from lib import func as f\nf(1)\n", "from lib import new as f\nf(1)\n"),
        ("x.func()\nx.func = 1\nx.func\n", "x.new()\nx.func = 1\nx.func\n"),
        ("func()\n", "new()\n"),
        ("def func(): pass\nfunc()\n", "def func(): pass\nfunc()\n"),
        ("class A:\n    def func(self): self.func()\n", "class A:\n    def func(self): self.func()\n"),
        ("f(func=1)\n", "f(func=1)\n"),
    ],
)
def test_a_function_without_a_dot_is_every_one_that_is_called_so(source: str, expected: str) -> None:
    assert after(function("func", "new"), source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import lib\nlib.a.func(1)\nlib.func(1)\n", "import lib\nlib.a.new(1)\nlib.func(1)\n"),
        ("from lib import a\na.func(1)\n", "from lib import a\na.new(1)\n"),
        ("from lib.a import func\nx.func()\nfunc()\n", "from lib.a import new as func\nx.func()\nfunc()\n"),
    ],
)
def test_a_function_with_a_dot_is_its_qualified_name(source: str, expected: str) -> None:
    assert after(function("lib.a.func", "new"), source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from lib import f\nf(a, b)\n", "from lib import f\nf('x', b)\n"),
        ("from lib import f\nf(  # 1\n  a,  # 2\n  b\n)\n", "from lib import f\nf(  # 1\n  'x',  # 2\n  b\n)\n"),
        ("from lib import f\nf((a))\n", "from lib import f\nf('x')\n"),
        ("from lib import f\nf()\n", "from lib import f\nf()\n"),
        ("from lib import f\nf('x')\n", "from lib import f\nf('x')\n"),
    ],
)  # fmt: skip
def test_an_argument_is_replaced_and_its_layout_stays(source: str, expected: str) -> None:
    assert after(argument("lib.f", 0, "'x'"), source) == expected


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("f(*a)", "may be inside the unpacked `*`"),
        ("f(x=1)", "may be passed by keyword"),
        ("f(**a)", "inside the unpacked `**`"),
    ],
)
def test_an_argument_that_may_be_another_one_is_left_with_the_reason(call: str, reason: str) -> None:
    outcome = apply(argument("lib.f", 0, "'x'"), f"from lib import f\n{call}\n")
    assert not outcome.changed
    assert [reason in finding.message for finding in outcome.findings] == [True]


@pytest.mark.parametrize(
    ("index", "before", "expected"),
    [
        (0, "f(a, b, c)", "f(b, c)"),
        (1, "f(a, b, c)", "f(a, c)"),
        (2, "f(a, b, c,)", "f(a, b,)"),
        (0, "f(a)", "f()"),
        (0, "f(a,)", "f()"),
        (1, "f(a, b, key=c)", "f(a, key=c)"),
        (0, "f(a, *b)", "f(a, *b)"),
        (3, "f(a)", "f(a)"),
    ],
)
def test_an_empty_new_argument_removes_the_old_one(index: int, before: str, expected: str) -> None:
    assert after(argument("lib.f", index, ""), f"from lib import f\n{before}\n") == f"from lib import f\n{expected}\n"


def test_an_edit_that_drops_a_call_or_a_comment_waits_for_unsafe() -> None:
    for call in ("f(g(), b)", "f(\n    a,  # a comment\n    b)"):
        source = f"from lib import f\n{call}\n"
        assert not apply(argument("lib.f", 0, ""), source).changed
        assert apply(argument("lib.f", 0, ""), source, unsafe=True).changed


@pytest.mark.parametrize(
    ("changes", "before", "expected"),
    [
        ([{"set": "device", "position": 1, "value": "d"}], "f(a, 'cuda')", "f(a, d)"),
        ([{"set": "device", "position": 1, "value": "d"}], "f(a, device='cuda')", "f(a, device=d)"),
        ([{"add": "slow", "value": "True"}], "f(a,)", "f(a, slow=True,)"),
        ([{"add": "slow", "value": "True"}], "f(slow=False)", "f(slow=False)"),
        ([{"add": 1, "value": "n"}], "f(a)", "f(a, n)"),
        ([{"add": 1, "value": "n"}], "f(a, k=1)", "f(a, k=1)"),
        ([{"add": 0, "value": "n"}], "f()", "f(n)"),
        ([{"remove": "pin"}], "f(a, pin=True, b=1)", "f(a, b=1)"),
        ([{"rename": "gpu", "to": "npu"}], "f(gpu = 0)", "f(npu = 0)"),
        ([{"in": 0, "old": "cuda", "new": "npu"}], "f('cuda' + f\"cuda{x}\", c)", "f('npu' + f\"npu{x}\", c)"),
        ([{"remove": 0}, {"add": "k", "value": "1"}], "f(a, b)", "f(b, k=1)"),
    ],
)  # fmt: skip
def test_arguments_change_as_the_rule_says(changes: list[dict[str, Any]], before: str, expected: str) -> None:
    got = after(own(match="lib.f", arguments=changes), f"from lib import f\n{before}\n")
    assert got == f"from lib import f\n{expected}\n"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import lib\nlib.f(1)\n", "import lib\nimport other.sub\nother.sub.g(1)\n"),
        ("from lib import f\nf(1)\n", "from other.sub import g as f\nf(1)\n"),
        ("from lib import f, h\nf(1)\n", "from other.sub import g as f\nfrom lib import h\nf(1)\n"),
        ("from lib import h, f as k\n", "from other.sub import g as k\nfrom lib import h\n"),
        ("if x:\n    from lib import f, h\n", "if x:\n    from other.sub import g as f\n    from lib import h\n"),
        ("a = 1; from lib import f, h\n", "a = 1; from other.sub import g as f; from lib import h\n"),
    ],
)
def test_a_function_may_move_to_another_module(source: str, expected: str) -> None:
    assert after(own(match="lib.f", rename="other.sub.g"), source) == expected


def test_a_new_name_whose_root_means_something_else_is_left() -> None:
    outcome = apply(own(match="lib.f", rename="other.g"), "import lib\nother = 1\nlib.f()\n")
    assert not outcome.changed
    assert "`other` has another meaning here" in outcome.findings[0].message


def test_stars_stand_for_parts_of_names() -> None:
    source = "import lib\nlib.gpu.fast.load_a()\nlib.gpu.load_b()\nlib.gpu.fast.save()\n"
    expected = "import lib\nlib.npu.fast.load_a()\nlib.npu.load_b()\nlib.gpu.fast.save()\n"
    assert after(own(match="lib.gpu.**.load_*", rename="lib.npu.**.load_*"), source) == expected


def test_an_attribute_of_any_object_is_renamed_and_those_of_own_classes_are_left() -> None:
    source = """\
        class Box:
            def to_gpu(self):
                return self
        Box().to_gpu()
        """
    assert after(own(match=".to_gpu", rename="to_npu"), "x.y().to_gpu()\nx.to_gpu\n") == "x.y().to_npu()\nx.to_npu\n"
    outcome = apply(own(match=".to_gpu", rename="to_npu"), source)
    assert not outcome.changed
    assert "its definition would have to be renamed, too" in outcome.findings[0].message


def test_a_name_and_its_arguments_change_together_or_not_at_all() -> None:
    rule = own(match="lib.f", rename="lib.g", arguments=[{"reorder": [1, 0]}])
    assert after(rule, "from lib import f\nf(a, b)\n") == "from lib import g as f\nf(b, a)\n"
    assert not apply(rule, "from lib import f\nf(a, b)\nf(h(), b)\n").changed
    assert not apply(rule, "from lib import f\nf(a, b)\nmap(f, x)\n").changed
    assert after(rule, "import lib\nlib.f(a, b)\nlib.f(h(), b)\n") == "import lib\nlib.g(b, a)\nlib.f(h(), b)\n"


def test_two_rules_change_one_call() -> None:
    document = {**function("ours.gpu.f", "g"), **argument("ours.gpu.f", 0, "1"), **MODULE}
    assert after(document, "import ours.gpu\nours.gpu.f(x)\n") == "import ours.npu\nours.npu.g(1)\n"


def test_a_rule_for_one_target_is_not_used_for_the_other() -> None:
    rule = own(match="lib.f", rename="lib.g", target="agnostic")
    source = "import lib\nlib.f()\n"
    assert not apply(rule, source).changed
    assert apply(rule, source, target="agnostic").changed


def codes(document: Any, source: str) -> list[Finding]:
    outcome = convert_source(source, "a.py", ConvertOptions(user_rules=rules_of(document)))
    return [finding for finding in outcome.findings if finding.code != "JM107"]


def test_a_message_changes_nothing_and_leaves_the_place_to_the_other_rules() -> None:
    source = "import torch\ntorch.cuda.synchronize()\n"
    found = codes(own(match="torch.cuda.*", message="Ask us.", severity="error", action="Mail."), source)
    assert [(item.code, item.severity.label) for item in found] == [("JM101", "info"), ("JM195", "error")]
    assert (found[1].message, found[1].action, found[1].evidence) == ("Ask us.", "Mail.", {"rule": "a"})


def test_a_name_that_is_kept_is_left_by_every_rule() -> None:
    found = codes(own(match="torch.cuda.synchronize", keep=True), "import torch\ntorch.cuda.synchronize()\n")
    assert [item.code for item in found] == ["JM195"]


def test_a_place_that_a_user_rule_changed_is_left_by_the_other_rules() -> None:
    found = codes(function("torch.cuda.synchronize", "wait"), "import torch\ntorch.cuda.synchronize()\n")
    assert [(item.code, item.evidence["applied"]) for item in found] == [("JM195", True)]


NAMES = st.sampled_from(["lib.f", "lib.sub.g", "x.f", "f", "h", "lib"])
VALUES = st.sampled_from(["a", "g()", "'cuda'", "k=1", "*r", "**m", "(b)", "lambda: 0", "device=d"])
CALLS = st.builds(lambda name, args: f"{name}({', '.join(args)})", NAMES, st.lists(VALUES, max_size=4))
CHANGES = st.sampled_from(
    [
        {"set": 0, "value": "new"}, {"set": "device", "position": 1, "value": "new"}, {"add": "slow", "value": "1"},
        {"add": 1, "value": "1"}, {"remove": 0}, {"remove": "k"}, {"rename": "k", "to": "kk"},
        {"in": 0, "old": "cuda", "new": "npu"},
    ]
)  # fmt: skip


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.lists(CALLS, min_size=1, max_size=3), st.lists(CHANGES, min_size=1, max_size=3))
def test_any_call_stays_a_call_that_parses(calls: list[str], changes: list[dict[str, Any]]) -> None:
    source = "import lib\nfrom lib import f, h\n" + "\n".join(calls) + "\n"
    try:
        compile(source, "a.py", "exec")
    except SyntaxError:
        return
    rule = own(match=["lib.f", "lib.sub.g"], rename="lib.z", arguments=changes)
    try:
        rules_of(rule)
    except InputError:  # the changes exclude each other
        return
    for unsafe in (False, True):
        compile(after(rule, source, unsafe=unsafe), "a.py", "exec")
