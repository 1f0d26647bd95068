"""Notebooks: cells converted together, everything else of the file byte for byte."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise

import pytest
from file_cases import converted_file, file_findings, left_in_file, outcome_of_file
from hypothesis import given
from hypothesis import strategies as st

from jumar.convert.files.draft.differences import differences
from jumar.convert.files.notebook.cells import JoinedCells, read_cell
from jumar.convert.files.notebook.document import NotebookError, read_notebook
from jumar.convert.model.edits import Replacement, apply
from jumar.convert.model.outcome import Failure, Skip
from jumar.convert.verify.rules.changes_outside_edits import difference


def notebook(*cells: str | list[str], indent: int | None = 1, kind: str = "code", **more: object) -> str:
    """A notebook as Jupyter writes it; a cell given as text has its source as a list of lines."""
    made = [
        {
            "cell_type": kind,
            "execution_count": None,
            "metadata": {"tags": ["cuda"]},
            "outputs": [{"output_type": "stream", "text": ["cuda:0 \u8bad\n"]}],
            "source": cell.splitlines(keepends=True) if isinstance(cell, str) else "".join(cell),
        }
        for cell in cells
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}, indent=indent) + "\n"


def sources(text: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"]]


def converted_cells(*cells: str, target: str = "npu") -> list[str]:
    return sources(converted_file(notebook(*cells), "a.ipynb", target=target))


def test_names_of_earlier_cells_are_known() -> None:
    cells = converted_cells("import torch as t\nfrom torch import cuda", "x = t.ones(1).cuda()", "cuda.synchronize()")
    assert cells[1:] == ["x = t.ones(1).npu()", "cuda.synchronize()"]
    assert "import torch_npu" in cells[0]
    assert "from torch import npu as cuda" in cells[0]


def test_everything_outside_of_the_edits_stays() -> None:
    text = notebook("import torch\nimport torch_npu", "x = 'h\u00e9'\ndevice = torch.device('cuda')  # cuda", indent=3)
    assert converted_file(text, "a.ipynb") == text.replace("torch.device('cuda')", "torch.device('npu')")


@pytest.mark.parametrize("indent", [None, 0, 1, 2])
def test_added_lines_take_the_layout_of_the_list(indent: int | None) -> None:
    text = notebook("import torch\nx = 1", "torch.cuda.synchronize()", indent=indent)
    after = converted_file(text, "a.ipynb")
    document = json.loads(after)
    assert document["cells"][0]["source"] == ["import torch\n", "import torch_npu  # noqa: F401\n", "x = 1"]
    assert after == json.dumps(document, indent=indent) + "\n"


def test_an_import_at_the_end_of_a_cell_without_a_last_line_end() -> None:
    text = notebook("import torch", "torch.cuda.synchronize()")
    after = converted_file(text, "a.ipynb")
    assert json.loads(after)["cells"][0]["source"] == ["import torch\n", "import torch_npu  # noqa: F401"]


def test_sources_that_are_one_string() -> None:
    text = notebook(["import torch\n", "x = 'a\\tb'\n", "x.cuda()"])
    after = converted_file(text, "a.ipynb")
    assert sources(after) == ["import torch\nimport torch_npu  # noqa: F401\nx = 'a\\tb'\nx.npu()"]
    assert isinstance(json.loads(after)["cells"][0]["source"], str)


def test_escapes_and_raw_characters_stay_as_they_are() -> None:
    text = notebook("import torch, torch_npu\nx = '\u8bad \U0001f600'; y = x.cuda()").replace("\\u8bad", "\u8bad", 1)
    after = converted_file(text, "a.ipynb")
    assert after == text.replace("y = x.cuda()", "y = x.npu()")


def test_magics_and_shell_lines() -> None:
    cell = (
        "%matplotlib inline\n!CUDA_VISIBLE_DEVICES=1,0 python a.py --device cuda\nimport torch, torch_npu\n"
        "if torch.cuda.is_available():\n    !nvidia-smi\n    out = !ls \\\n      cuda\nx?\n"
        "%env CUDA_VISIBLE_DEVICES 3,2\n%set_env CUDA_LAUNCH_BLOCKING=1\n%pip install torch==2.1.0+cu118\n"
        "%time y = 'cuda'"
    )
    (after,) = converted_cells(cell)
    assert after == (
        "%matplotlib inline\n!ASCEND_RT_VISIBLE_DEVICES=0,1 python a.py --device npu\nimport torch, torch_npu\n"
        "if torch.npu.is_available():\n    !npu-smi info\n    out = !ls \\\n      cuda\nx?\n"
        "%env ASCEND_RT_VISIBLE_DEVICES 2,3\n%set_env ASCEND_LAUNCH_BLOCKING=1\n"
        "%pip install torch==2.1.0\n%time y = 'cuda'"
    )


def test_cell_magics() -> None:
    cells = converted_cells(
        "%%bash\nCUDA_VISIBLE_DEVICES=0 python a.py\n",
        "%%time\nimport torch\nimport torch_npu\ntorch.cuda.synchronize()",
        "%%writefile run.sh\nexport CUDA_VISIBLE_DEVICES=0",
        "%%html\n<b>cuda</b>",
    )
    assert cells == [
        "%%bash\nASCEND_RT_VISIBLE_DEVICES=0 python a.py\n",
        "%%time\nimport torch\nimport torch_npu\ntorch.npu.synchronize()",
        "%%writefile run.sh\nexport ASCEND_RT_VISIBLE_DEVICES=0",
        "%%html\n<b>cuda</b>",
    ]


def test_findings_name_cell_and_line() -> None:
    text = notebook("import torch\n", "y = 1\nx = y.cuda()\n")
    (finding,) = file_findings(text, "a.ipynb", "JM103")
    assert finding.message.startswith("Cell 2, line 2: ")
    assert (finding.evidence["cell"], finding.evidence["cell_line"]) == (2, 2)
    assert finding.where.line is not None
    line = text.splitlines(keepends=True)[finding.where.line - 1]
    assert "x = y.cuda()" in line
    assert finding.edit is not None
    assert (finding.edit.before, finding.edit.after) == (line, line.replace("cuda", "npu"))


def test_a_cell_that_cannot_be_read_does_not_keep_the_others() -> None:
    text = notebook("import torch, torch_npu\nx.cuda()", "print 'cuda'", "await torch.cuda.f()\ny.cuda()")
    cells = sources(converted_file(text, "a.ipynb"))
    assert [cell.rpartition("\n")[2] for cell in cells] == ["x.npu()", "print 'cuda'", "y.npu()"]
    (finding,) = left_in_file(text, "a.ipynb", "JM128")
    assert finding.evidence["cell"] == 2


def test_texts_and_other_languages_are_left() -> None:
    assert isinstance(outcome_of_file(notebook("x.cuda()", kind="markdown"), "a.ipynb"), Skip)
    other = notebook("x.cuda()", metadata={"kernelspec": {"language": "julia"}})
    assert isinstance(outcome_of_file(other, "a.ipynb"), Skip)


@pytest.mark.parametrize("text", ['{"cells": [cuda', '["cuda"]', '{"a": "cuda"}', '{"cells": {"cuda": 1}}', "cuda"])
def test_broken_notebooks_fail_with_a_sentence(text: str) -> None:
    found = outcome_of_file(text, "a.ipynb")
    assert isinstance(found, Failure)
    assert found.error.startswith("a.ipynb: it ")
    assert [finding.code for finding in found.findings] == ["JM128"]


def test_the_agnostic_target_reaches_notebooks() -> None:
    cells = converted_cells("import torch", "torch.cuda.synchronize()", target="agnostic")
    assert "cuda" not in cells[1]
    assert "npu" not in cells[1]


@given(st.lists(st.text(alphabet='ab\n\t"\\é\u8bad\U0001f600 ', max_size=12), max_size=4), st.booleans(), st.booleans())
def test_cells_are_read_as_json_reads_them(cells: list[str], as_text: bool, ascii_only: bool) -> None:
    made = [{"source": cell if as_text else cell.splitlines(keepends=True), "cell_type": "code"} for cell in cells]
    text = json.dumps({"metadata": {"a": [1, {}]}, "cells": made}, ensure_ascii=ascii_only, indent=1)
    found = read_notebook(text).cells
    assert [cell.text for cell in found] == [cell for cell in cells if cell or as_text]
    for cell in found:
        for char, (start, end) in zip(cell.text, cell.spans, strict=True):
            assert json.loads(f'"{text[start:end]}"') == char


@given(
    st.text(alphabet="ab\n", min_size=1, max_size=20), st.text(alphabet="ab\n\"", max_size=20), st.booleans(),
    st.sampled_from([None, 1]),
)  # fmt: skip
def test_edits_of_a_cell_become_edits_of_the_file(before: str, after: str, as_text: bool, indent: int | None) -> None:
    source = before if as_text else before.splitlines(keepends=True)
    text = json.dumps({"cells": [{"cell_type": "code", "source": source}]}, indent=indent)
    (cell,) = read_notebook(text).cells
    edits = [cell.replacement(edit) for edit in differences(before, after)]
    assert sources(apply(text, sorted(edits))) == [after]


@given(st.text(alphabet="ab\n", max_size=30), st.text(alphabet="ab\n", max_size=30))
def test_differences_make_one_text_of_the_other(before: str, after: str) -> None:
    edits = differences(before, after)
    assert apply(before, edits) == after
    assert all(first.end <= second.start for first, second in pairwise(edits))


@given(st.lists(st.text(alphabet="ab\n#", max_size=12), max_size=4))
def test_joined_cells_come_apart_again(codes: list[str]) -> None:
    joined = JoinedCells.of(codes)
    assert joined.split(joined.text) == tuple(codes)
    assert [joined.place(start) for start in joined.starts] == [(index, 0) for index in range(len(codes))]


@given(st.text(alphabet="%!?x=\n\\ '(", max_size=30))
def test_any_cell_is_taken_apart_with_lengths_kept(text: str) -> None:
    found = read_cell(text)
    assert found.python is None or len(found.python) == len(text)
    assert all(0 <= start <= end <= len(text) for start, end in [*found.commands, *found.variables])


@given(st.text(max_size=60))
def test_any_text_is_a_notebook_or_none(text: str) -> None:
    with suppress(NotebookError):
        assert read_notebook('{"cells": [' + text).language == "python"


def test_replacements_at_the_seams_of_a_list() -> None:
    text = notebook("a\nb\nc")
    (cell,) = read_notebook(text).cells
    for edit, result in [
        (Replacement(2, 2, "x\n"), ["a\n", "x\n", "b\n", "c"]),
        (Replacement(5, 5, "\nx"), ["a\n", "b\n", "c\n", "x"]),
        (Replacement(0, 2, ""), ["", "b\n", "c"]),
        (Replacement(2, 4, "x\ny\n"), ["a\n", "x\n", "y\n", "c"]),
    ]:
        assert json.loads(apply(text, [cell.replacement(edit)]))["cells"][0]["source"] == result


def test_the_recorded_edit_of_an_import_behind_a_cells_last_line_is_what_was_made() -> None:
    text = notebook("import torch", "torch.cuda.synchronize()")
    outcome = outcome_of_file(text, "a.ipynb")
    edits = [each.edit for each in outcome.findings if each.edit is not None]
    assert difference(text, outcome.after.decode(), edits) is None
