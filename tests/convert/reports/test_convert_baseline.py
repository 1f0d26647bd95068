"""The baseline of known CUDA uses: robust to moved lines, small, the same everywhere, and mergeable."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.base.errors import InputError
from jumar.convert import convert_source
from jumar.convert.reports.baseline import Baseline, Comparison, Use, compare, uses_of

ROOT = Path("/project")


def places(files: Mapping[str, str], root: Path = ROOT, base: Path = ROOT):  # type: ignore[no-untyped-def]
    return list(uses_of([convert_source(text, path) for path, text in files.items()], root, base))


def against(before: Mapping[str, str], after: Mapping[str, str]) -> Comparison:
    return compare(Baseline.of(places(before)), places(after))


def test_uses_that_are_converted_and_uses_that_are_left_count_and_imports_that_edits_need_do_not() -> None:
    found = places({"a.py": "import torch\nx.cuda()\nstate = torch.load('m')\n"})
    assert [(use.code, use.line) for use, _ in found] == [("JM103", "x.cuda()"), ("JM112", "state = torch.load('m')")]


def test_lines_that_move_and_are_indented_otherwise_are_known() -> None:
    before = {"a.py": "x.cuda()\ny.cuda()\n"}
    after = {"a.py": "import os\nif a:\n    y.cuda()\n\n\nx.cuda()\n"}
    result = against(before, after)
    assert (result.new, result.gone, result.num_known) == ({}, {}, 2)


def test_one_more_of_equal_lines_is_new_and_the_last_is_named() -> None:
    result = against({"a.py": "x.cuda()\n"}, {"a.py": "x.cuda()\n\nx.cuda()\n"})
    assert result.new == {Use(path="a.py", code="JM103", line="x.cuda()"): 1}
    assert [finding.where.line for finding in result.findings] == [3]


def test_a_use_that_is_gone_is_told_apart_from_one_that_is_new() -> None:
    result = against({"a.py": "x.cuda()\n"}, {"a.py": "y.cuda()\n"})
    assert [use.line for use in result.new] == ["y.cuda()"]
    assert [use.line for use in result.gone] == ["x.cuda()"]


def test_a_file_that_moves_takes_its_uses_along() -> None:
    result = against({"a.py": "x.cuda()\nx.cuda()\n"}, {"sub/b.py": "x.cuda()\nx.cuda()\nx.cuda()\n"})
    assert (list(result.new.values()), result.gone) == ([1], {})


def test_a_use_that_is_copied_to_another_file_is_new() -> None:
    result = against({"a.py": "x.cuda()\n"}, {"a.py": "y = 1\nz.cuda()\n", "b.py": "x.cuda()\n"})
    assert [use.path for use in result.new] == ["a.py", "b.py"]


def test_paths_are_those_from_the_folder_of_the_baseline() -> None:
    inner = places({"a.py": "x.cuda()\n"}, root=ROOT / "src", base=ROOT)
    outer = places({"src/a.py": "x.cuda()\n"})
    assert [use for use, _ in inner] == [use for use, _ in outer]
    beside = places({"a.py": "x.cuda()\n"}, root=ROOT, base=ROOT / "ci")
    assert beside[0][0].path == "../a.py"


def test_a_check_of_a_part_leaves_the_rest_of_the_baseline_alone() -> None:
    known = Baseline.of(places({"src/a.py": "x.cuda()\n", "src2/a.py": "x.cuda()\n", "b.py": "x.cuda()\n"}))
    assert [use.path for use in known.within("src").uses] == ["src/a.py"]
    assert [use.path for use in known.within("b.py").uses] == ["b.py"]
    assert known.within(".") == known


def test_a_long_line_keeps_its_start_and_a_digest_of_all_of_it() -> None:
    one, two = (places({"a.py": f"x.cuda({'1, ' * 80}{last})\n"})[0][0].line for last in "12")
    assert len(one) <= 120
    assert one.startswith("x.cuda(1, 1, ")
    assert one != two


def test_the_file_is_sorted_and_one_line_a_use(tmp_path: Path) -> None:
    files = {"b.py": "x.cuda()\n", "a.py": "x.cuda()\ny.cuda()\nx.cuda()\n"}
    text = Baseline.of(places(files)).text()
    assert text.splitlines()[1:] == ["JM103\ta.py\t2\tx.cuda()", "JM103\ta.py\t1\ty.cuda()", "JM103\tb.py\t1\tx.cuda()"]
    assert Baseline.of(places(dict(reversed(files.items())))).text() == text


TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
USES = st.builds(
    Use,
    path=TEXT,
    code=st.sampled_from(["JM101", "JM114"]),
    line=TEXT.map(lambda text: " ".join(text.split())),
)


@given(st.dictionaries(USES, st.integers(1, 10**8), max_size=6))
def test_what_is_written_is_read_again(uses: dict[Use, int]) -> None:
    folder = Path(__file__).parent
    text = Baseline(uses).text()
    again = Baseline.parse(text, folder / "known.txt")
    assert again.uses == uses
    assert again.text() == text


def test_uses_that_two_branches_added_count_once(tmp_path: Path) -> None:
    path = tmp_path / "known.txt"
    path.write_text("# head\nJM103\ta.py\t1\tx.cuda()\nJM103\ta.py\t2\tx.cuda()\n")
    assert list(Baseline.read(path).uses.values()) == [2]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "# h\n<<<<<<< HEAD\n",
            "line 2: must be rule, file, count and text with tabs between.*settle the merge conflict",
        ),
        ("JM103\ta.py\tmany\tx\n", "line 1: must be rule, file, count and text"),
        ("import torch\n", 'got "import torch"'),
    ],
)
def test_a_file_that_is_no_baseline_is_refused_with_its_line(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "known.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=sentence):
        Baseline.read(path)


def test_a_missing_baseline_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Make it with --write-baseline"):
        Baseline.read(tmp_path / "none.txt")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is no UTF-8 text"):
        Baseline.read(tmp_path / "binary")
