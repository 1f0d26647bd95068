"""Rule files: both forms are read, and whatever is wrong in one is named with its place, value and what is expected."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jumar.base.errors import InputError, JumarError
from jumar.base.findings import Severity
from jumar.convert.user_rules.load import load, loads
from jumar.convert.user_rules.model import (
    AddArgument,
    Argument,
    RemoveArgument,
    ReorderArguments,
    SetArgument,
    UserRules,
)

SEED = {
    "rules": {
        "ArgsModifyRule": [{"func_name": "name1", "arg_idx": 0, "arg_new": "agrs0"}],
        "FuncNameModifyRule": [{"old_name": "func", "new_name": "new_func"}],
        "ModuleNameModifyRule": [{"old_name": "amp", "new_name": "amp2", "parent_module": "torch.cuda"}],
    }
}


def read(document: Any, name: str = "rules.json") -> UserRules:
    return loads(json.dumps(document).encode(), name)


def own(**fields: Any) -> UserRules:
    return read({"rules": [{"name": "a", "match": "ours.f", **fields}]})


def test_the_form_of_the_documents_is_read_in_its_order() -> None:
    rules = read(SEED).rules
    assert [rule.name for rule in rules] == ["ArgsModifyRule[0]", "FuncNameModifyRule[0]", "ModuleNameModifyRule[0]"]
    assert rules[0].changes == (SetArgument(argument=Argument(position=0), value="agrs0"),)
    assert [pattern.text for pattern in rules[1].patterns] == ["**.func", ".func"]
    assert (rules[2].patterns[0].text, rules[2].rename) == ("torch.cuda.amp", "torch.cuda.amp2")


def test_an_empty_new_argument_of_the_documents_form_removes_the_old_one() -> None:
    document = {"rules": {"ArgsModifyRule": [{"func_name": "f", "arg_idx": 1, "arg_new": ""}]}}
    assert read(document).rules[0].changes == (RemoveArgument(argument=Argument(position=1)),)


TOML = """
schema = 1

[[rules]]
name = "our-loader"
match = ["ours.gpu.load*", "ours.cuda.load*"]
rename = "ours.npu.load*"
requires = "import ours.npu"
safety = "unsafe"
target = "agnostic"
severity = "advice"
arguments = [{add = "device", position = 1, value = "'npu'"}, {reorder = [1, 0]}]
tests = [{before = "a", after = "b"}]
"""


def test_jumars_own_form_is_read_from_toml() -> None:
    (rule,) = loads(TOML.encode(), "rules.toml").rules
    assert [pattern.text for pattern in rule.patterns] == ["ours.gpu.load*", "ours.cuda.load*"]
    assert rule.changes[0] == AddArgument(argument=Argument(position=1, name="device"), value="'npu'")
    assert rule.changes[1] == ReorderArguments(order=(1, 0))
    assert (rule.severity, rule.safety, rule.target) == (Severity.ADVICE, "unsafe", "agnostic")
    assert (rule.requires, rule.tests[0].after) == (("import ours.npu",), "b")


def test_a_byte_order_mark_is_no_part_of_the_document() -> None:
    assert loads(b"\xef\xbb\xbf" + json.dumps(SEED).encode(), "r.json") == read(SEED, "r.json")


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], 'rules.json: must be an object with names and values; got [].'),
        ({}, 'rules.json: must have the field "rules"; add it.'),
        ({"rules": 3}, "rules.json: rules must be an object with names and values; got 3."),
        ({"rule": []}, "rules.json: rule is not a field of a rule file here; did you mean rules?"),
        ({"rules": {"ArgModifyRule": []}}, "rules.ArgModifyRule is not a field of a rule file here; did you mean Args"),
        ({"rules": {"ArgsModifyRule": {}}}, "rules.ArgsModifyRule must be a list; got {}."),
        ({"rules": {"ArgsModifyRule": [7]}}, "rules.ArgsModifyRule[0] must be an object with names and values; got 7."),
        (
            {"rules": {"ArgsModifyRule": [{"func_name": "f", "arg_idx": -1, "arg_new": "1"}]}},
            "rules.ArgsModifyRule[0].arg_idx must be a whole number from 0 up; got -1.",
        ),
        (
            {"rules": {"ArgsModifyRule": [{"func_name": "f", "arg_idx": True, "arg_new": "1"}]}},
            "rules.ArgsModifyRule[0].arg_idx must be a whole number from 0 up; got true.",
        ),
        (
            {"rules": {"ArgsModifyRule": [{"func_name": "f", "arg_idx": 0, "arg_new": "a) + (b"}]}},
            "arg_new must be one Python expression on one line, such as 'npu' with its quotes; got \"a) + (b\".",
        ),
        (
            {"rules": {"FuncNameModifyRule": [{"old_name": "f", "new_name": "a.b"}]}},
            'rules.FuncNameModifyRule[0].new_name must be a name without a dot where old_name is one; got "a.b".',
        ),
        (
            {"rules": {"ModuleNameModifyRule": [{"old_name": "f", "new_name": "g"}]}},
            'rules.json: rules.ModuleNameModifyRule[0] must have the field "parent_module"; add it.',
        ),
        ({"rules": [{"name": "A b", "match": "f"}]}, "rules[0].name must be lower-case words joined by hyphens"),
        ({"rules": [{"name": "a"}]}, 'rules[0] must have the field "match"; add it.'),
        ({"rules": [{"name": "a", "match": "1.x"}]}, "rules[0].match must be qualified names such as ours.data.load"),
        ({"rules": [{"name": "a", "match": []}]}, "rules[0].match must name something; got []."),
    ],
)  # fmt: skip
def test_an_error_names_the_place_the_value_and_what_is_expected(document: Any, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        read(document)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "rules[0].name must name a rule that does something"),
        ({"keep": True, "rename": "ours.g"}, "rules[0].keep must not stand beside rename"),
        ({"message": "x", "requires": "import a"}, "rules[0].requires must stand beside rename or arguments"),
        ({"message": "x", "safety": "safe"}, "rules[0].safety must stand beside rename or arguments"),
        ({"message": "x", "severity": "fatal"}, 'or "advice" or "warning" or "error"; got "fatal".'),
        ({"rename": "ours.*"}, "rules[0].rename must have no star, or as many as ours.f in match"),
        ({"match": "ours.**", "rename": "ours.npu.**"}, "must give names that ours.** in match does not match again"),
        ({"match": ".f", "rename": "a.b"}, "rules[0].rename must be one word beside .f in match"),
        ({"called": True, "message": "x"}, "rules[0].called must stand only beside names behind a dot"),
        ({"rename": "ours.g", "requires": "x = 1"}, "rules[0].requires must be import statements"),
        ({"arguments": [{}]}, "rules[0].arguments[0].set must be beside none other"),
        ({"arguments": [{"set": 0, "remove": 1}]}, "a change has exactly one of set, add, remove, rename, in, reorder"),
        ({"arguments": [{"set": 0, "position": 1, "value": "1"}]}, "position must stand only where set is a keyword"),
        ({"arguments": [{"set": "a", "value": "b=1"}]}, "arguments[0].value must be one Python expression"),
        ({"arguments": [{"set": "a", "value": "1  # x"}]}, "arguments[0].value must be one Python expression"),
        ({"arguments": [{"in": 0, "old": "", "new": "x"}]}, 'arguments[0].old must not be empty; got "".'),
        ({"arguments": [{"in": 0, "old": "a", "new": "'"}]}, "arguments[0].new must be text without quotes"),
        ({"arguments": [{"reorder": [0, 2]}], "rename": "ours.g"}, "reorder must be the positions from 0 up"),
        ({"arguments": [{"reorder": [1, 0]}]}, "rules[0].arguments must not reorder without rename"),
        ({"arguments": [{"set": 0, "value": "1"}, {"remove": 0}]}, "set of argument 0 and remove of argument 0"),
        ({"arguments": [{"add": "a", "value": "1"}, {"add": "a", "value": "2"}]}, 'add of argument "a" and add of arg'),
        ({"arguments": [{"rename": "a", "to": "b"}, {"remove": "a"}]}, 'renaming of "a" and remove of argument "a"'),
        ({"arguments": [{"reorder": [1, 0]}, {"set": 1, "value": "2"}], "rename": "ours.g"}, "the reordering [1, 0]"),
    ],
)  # fmt: skip
def test_fields_that_contradict_each_other_are_refused(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        own(**fields)
    assert sentence in str(error.value)


def test_two_rules_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="must be the rule's own; rules\\[0\\] has it, too"):
        read({"rules": [{"name": "a", "match": "f", "message": "x"}] * 2})


@pytest.mark.parametrize(
    ("data", "name", "sentence"),
    [
        (b"{\n  a}", "r.json", "r.json, line 2, column 3: must be JSON; expecting property name"),
        (b'{"rules": [], "rules": []}', "r.json", 'the key "rules" stands twice in one object'),
        (b"[" * 100_000, "r.json", "it is nested too deeply"),
        (b"a = ", "r.toml", "r.toml: must be TOML; invalid value"),
        (b"\xff", "r.json", "r.json: must be UTF-8 text; byte 0 is not"),
        (b"rules = 2020-01-01", "r.toml", "rules must be an object with names and values; got date."),
    ],
)
def test_a_file_that_is_no_document_says_where(data: bytes, name: str, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        loads(data, name)
    assert sentence in str(error.value)


def test_a_file_is_told_by_its_name_and_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end in \.json or \.toml"):
        load(tmp_path / "rules.yaml")
    with pytest.raises(InputError, match="cannot be read: No such file"):
        load(tmp_path / "rules.json")


def test_the_fingerprint_is_that_of_the_rules_and_survives_a_worker() -> None:
    first, second = read(SEED, "a.json"), read(SEED, "b.json")
    assert first.fingerprint == second.fingerprint == pickle.loads(pickle.dumps(first)).fingerprint
    changed = json.loads(json.dumps(SEED).replace("agrs0", "agrs1"))
    assert read(changed).fingerprint != first.fingerprint
    assert UserRules().fingerprint == UserRules().fingerprint


def test_a_source_concerns_rules_when_it_holds_one_of_their_words() -> None:
    rules = own(rename="ours.g")
    assert [rules.concern(text) for text in (b"from ours import f", b"import torch", b"")] == [True, False, False]
    assert own(match="*.f*", message="x").concern(b"def f(): pass")
    assert not UserRules().concern(b"anything")


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
WORDS = st.sampled_from(
    [
        "rules", "schema", "name", "match", "rename", "arguments", "set", "add", "remove", "in", "old", "new",
        "value", "reorder", "position", "to", "tests", "before", "after", "keep", "called", "requires", "severity",
        "target", "ArgsModifyRule", "FuncNameModifyRule", "ModuleNameModifyRule", "func_name", "arg_idx", "arg_new",
        "old_name", "new_name", "parent_module", "a", "ours.f", "ours.*", ".f", "'x'", "safe", "npu", "error",
    ]
)  # fmt: skip
VALUES = st.recursive(
    SCALARS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=5),
    max_leaves=20,
)
RULE_LISTS = st.lists(st.dictionaries(WORDS, VALUES, max_size=6), max_size=3)


def complaint(data: bytes, name: str) -> str:
    """What a user is told about a file, nothing where it is fine. Anything but an error for the user gets out."""
    try:
        fingerprint = loads(data, name).fingerprint
    except JumarError as error:
        return str(error)
    return "" if len(fingerprint) == 64 else fingerprint


@given(VALUES | st.fixed_dictionaries({"rules": RULE_LISTS | st.dictionaries(WORDS, RULE_LISTS, max_size=3)}))
@example({"rules": [{"name": "a", "match": "a" * 300 + ".\ud800", "message": "\x00"}]})
def test_no_document_raises_anything_but_an_error_for_the_user(document: Any) -> None:
    said = complaint(json.dumps(document).encode(), "r.json")
    assert "\n" not in said


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_bytes_raise_anything_but_an_error_for_the_user(data: bytes) -> None:
    for name in ("r.json", "r.toml"):
        assert complaint(data, name)[:2] in ("", "r.")
