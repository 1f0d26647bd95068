"""Comments that keep Jumar from a line or a file."""

from __future__ import annotations

import pytest

from jumar.convert import ConvertOptions, Skip, Success, convert_source
from jumar.convert.engine.file import convert_file
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.model.text import SourceText
from jumar.convert.rules.api.tensor_cuda_method import RULE
from jumar.convert.rules.subject.ignores import Ignores


def outcome(source: str, **options: object) -> Success:
    found = convert_source(source, "a.py", ConvertOptions(**options))  # type: ignore[arg-type]
    assert isinstance(found, Success)
    return found


@pytest.mark.parametrize(
    "line",
    [
        "x.cuda()  # jumar: ignore",
        "x.cuda()  # jumar: ignore[JM103]",
        "x.cuda()  # jumar: ignore[jm103, JM999] it is a fake",
        "x.cuda()  # noqa: F401  # jumar: ignore[JM103]",
        "# jumar: ignore[JM103]\nx.cuda()",
        "# jumar: ignore\n# more words\n\nx.cuda()",
        "x.cuda(  # jumar: ignore\n    1,\n)",
    ],
)
def test_an_ignored_place_is_neither_changed_nor_reported(line: str) -> None:
    found = outcome(f"{line}\n")
    assert not found.changed
    assert [finding for finding in found.findings if finding.code != "JM196"] == []


@pytest.mark.parametrize(
    "line",
    [
        "x.cuda()  # jumar: ignore[JM101]",
        "x.cuda()  # jumar ignore",
        "x.cuda()  # jumar: ignored",
        "x.cuda(); y = '# jumar: ignore'",
        "y = 1  # jumar: ignore\nx.cuda()",
        "# jumar: ignore\ny = 1\nx.cuda()",
    ],
)
def test_what_is_no_such_comment_or_for_another_rule_or_line_ignores_nothing(line: str) -> None:
    assert "x.npu()" in outcome(f"{line}\n").after.decode()


def test_no_other_rule_takes_the_place_of_one_that_is_ignored() -> None:
    found = outcome("import torch\ntorch.cuda.synchronize()  # jumar: ignore[JM101]\n")
    assert (found.changed, found.findings) == (False, ())


def test_an_import_that_only_ignored_edits_need_is_not_added() -> None:
    source = "import torch\nx.cuda()  # jumar: ignore\n"
    assert outcome(source).after.decode() == source


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_whole_file_is_left_whatever_its_line_ends(end: str) -> None:
    source = f"'''doc'''{end}# jumar: ignore-file{end}x.cuda(){end}"
    found = convert_source(source, "a.py")
    assert isinstance(found, Skip)
    assert found.findings == ()


def test_a_whole_file_of_another_kind_is_left() -> None:
    data = b"#!/bin/sh\n# jumar: ignore-file\nCUDA_VISIBLE_DEVICES=1 python a.py\n"
    assert isinstance(convert_file(data, "run.sh"), Skip)


def test_one_rule_may_be_ignored_in_a_whole_file() -> None:
    found = outcome("import torch\n# jumar: ignore-file[JM103]\nx.cuda()\ntorch.cuda.synchronize()\n")
    text = found.after.decode()
    assert "x.cuda()" in text
    assert "torch.npu.synchronize()" in text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("y = 1  # jumar: ignore", "This comment ignores nothing."),
        ("x.cuda()  # jumar: ignore[JM101]", "This comment ignores nothing of JM101."),
        ("x.cuda()  # jumar: ignore[JM101, JM103]", "This comment ignores nothing of JM101."),
        ("x.cuda()  # jumar: ignore[JM103]", ""),
    ],
)
def test_a_comment_that_ignores_nothing_is_reported(line: str, said: str) -> None:
    found = outcome(f"z.cuda()\n{line}\n").findings
    assert [item.message for item in found if item.code == "JM196"] == ([said] if said else [])


def test_a_rule_that_takes_no_part_is_no_reason_to_remove_its_comment() -> None:
    found = outcome("z.cuda()\nx.is_cuda  # jumar: ignore[JM104]\n", disable=frozenset({"JM104"})).findings
    assert [item for item in found if item.code == "JM196"] == []


def test_other_files_have_comments_behind_a_hash() -> None:
    text = SourceText.of("a: cuda  # jumar: ignore\nb: cuda\n")
    ignores = Ignores.of(text, python=False)
    first = Proposal(rule=RULE, span=(3, 7), message="", replacements=(Replacement(3, 7, "npu"),))
    at = text.text.index("cuda", 8)
    second = Proposal(rule=RULE, span=(at, at + 4), message="", replacements=(Replacement(at, at + 4, "npu"),))
    assert [ignores.ignores(ignores.filtered(item)) for item in (first, second)] == [True, False]
