"""What `jumar convert` writes and says: the tree, the reports in it, the page, and the summary."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
from pathlib import Path

import openpyxl
import pytest

from jumar.base.errors import InputError
from jumar.cli.commands.convert.sources import excluded, output_folder
from jumar.cli.main import main
from jumar.soc.support import chosen

REPORTS = {
    "msFmkTranspltlog.txt", "change_list.csv", "unsupported_op.xlsx", "findings.json", "changes.patch", "index.html"
}  # fmt: skip
TRAIN = "import torch\nimport apex\nmodel.cuda()\nstate = torch.load('m.pt')\ntorch.symeig(model)\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "proj"
    (root / "sub").mkdir(parents=True)
    (root / "train.py").write_text(TRAIN)
    (root / "sub" / "net.py").write_text("def f(x):\n    return x.cuda()\n")
    (root / "old.py").write_text("print 'cuda'\n")
    (root / "data.bin").write_bytes(b"\0\1")
    return root


def convert(*words: str) -> int:
    return main(["convert", *words])


def test_a_folder_becomes_the_same_tree_with_the_reports(project: Path) -> None:
    assert convert("-i", "proj", "-o", "out", "-q") == 1  # one file cannot be read
    out = Path("out/proj_msft")
    names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert names == REPORTS | {"train.py", "sub/net.py", "old.py", "data.bin"}
    assert (out / "sub/net.py").read_text() == "def f(x):\n    return x.npu()\n"
    assert (out / "old.py").read_text() == "print 'cuda'\n"
    assert (project / "train.py").read_text() == TRAIN


def test_without_a_place_the_result_stands_beside_the_sources(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert convert("-i", "proj/train.py", "-q") == 0
    assert (project / "train_msft" / "train.py").is_file()
    monkeypatch.chdir(project / "sub")
    assert convert("-i", ".", "-q") == 0
    assert (project / "sub_msft" / "net.py").is_file()


@pytest.mark.parametrize(
    ("source", "out", "expected"),
    [("proj", None, "proj_msft"), ("proj/", "out", "out/proj_msft"), ("proj/train.py", None, "proj/train_msft")],
)
def test_the_folder_is_called_after_the_source(project: Path, source: str, out: str | None, expected: str) -> None:
    assert output_folder(Path(source), Path(out) if out else None) == Path(expected)


def test_an_existing_result_is_replaced_only_by_force(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert convert("-i", "proj/sub", "-o", "out", "-q") == 0
    assert convert("-i", "proj/sub", "-o", "out", "-q") == 2
    assert "exists already" in capsys.readouterr().err
    assert convert("-i", "proj/sub", "-o", "out", "-q", "--force") == 0


def test_a_result_inside_the_sources_is_not_converted_with_them(project: Path) -> None:
    for _ in range(2):
        convert("-i", "proj", "-o", "proj/out", "-q", "--force")
    assert list((project / "out" / "proj_msft" / "out").rglob("*.py")) == []


def test_reports_replace_no_file_of_the_sources(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "index.html").write_text("mine")
    convert("-i", "proj", "-o", "out")
    out = Path("out/proj_msft")
    assert (out / "index.html").read_text() == "mine"
    assert (out / "jumar-index.html").read_text().startswith("<!doctype html>")
    assert "jumar-index.html" in capsys.readouterr().out
    assert "these reports have other names: jumar-index.html" in (out / "msFmkTranspltlog.txt").read_text()


def test_the_list_of_changes_has_a_row_for_every_edit_that_was_made(project: Path) -> None:
    convert("-i", "proj", "-o", "out", "-q")
    out = Path("out/proj_msft")
    rows = list(csv.DictReader(io.StringIO((out / "change_list.csv").read_text("utf-8-sig"), newline="")))
    document = json.loads((out / "findings.json").read_text())
    assert len(rows) == sum(finding["evidence"].get("applied", False) for finding in document["findings"])
    assert {(row["file"], row["rule"]) for row in rows} >= {("train.py", "JM103"), ("sub/net.py", "JM103")}


def test_the_workbook_names_what_the_npu_lacks_and_what_was_left(project: Path) -> None:
    convert("-i", "proj", "-o", "out", "-q")
    book = openpyxl.load_workbook("out/proj_msft/unsupported_op.xlsx")
    rows = [row[:4] for row in book["Unsupported"].iter_rows(min_row=2, values_only=True)]
    assert ("torch.symeig", "unverified", "train.py", 5) in rows
    assert ("torch.load", "warning", "train.py", 4) in rows
    about = dict(book["About"].iter_rows(values_only=True))
    assert about["target"] == "npu"


def test_an_assessment_is_looked_up_when_the_sources_are_the_same(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import jumar.convert.assess
    from jumar.convert import convert_tree
    from jumar.show.convert import lacking

    monkeypatch.setenv("JUMAR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(lacking, "_CACHED_FILES", 1)
    calls = []
    real = jumar.convert.assess.assess_source
    monkeypatch.setattr(
        jumar.convert.assess, "assess_source", lambda files, **given: (calls.append(files), real(files, **given))[1]
    )

    def rows(cache: bool = True) -> list[object]:
        return list(lacking.assessed(convert_tree(project), [], release="2.13", cache=cache))

    first = rows()
    assert rows() == first != []
    assert len(calls) == 1
    assert rows(cache=False) == first
    (project / "train.py").write_text(TRAIN + "torch.symeig(x)\n")
    assert len(rows()) == len(first) + 1
    assert len(calls) == 3


def test_the_document_counts_what_is_left_and_names_what_failed(project: Path) -> None:
    convert("-i", "proj", "-o", "out", "-q")
    document = json.loads(Path("out/proj_msft/findings.json").read_text())
    assert (document["num_files"], document["num_changed"], document["num_failed"]) == (3, 2, 1)
    assert document["failed"][0]["path"] == "old.py"
    assert document["num_left"]["error"] == 1


def test_the_page_has_its_parts(project: Path) -> None:
    convert("-i", "proj", "-o", "out", "-q")
    page = Path("out/proj_msft/index.html").read_text()
    for title in ("Left for you", "Before and after", "By rule", "By file", "Every finding", "Could not be read"):
        assert f">{title}<" in page
    assert "jumar rule JM1" in page


def test_a_page_of_a_big_tree_is_capped_with_a_note(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jumar.show.convert import page

    monkeypatch.setattr(page, "MOST_FINDINGS", 2)
    monkeypatch.setattr(page, "MOST_FILES", 1)
    monkeypatch.setattr(page, "MOST_LINES", 12)
    convert("-i", "proj", "-o", "out", "-q")
    text = Path("out/proj_msft/index.html").read_text()
    assert "are shown; all of them are in <code>findings.json</code>." in text
    assert "1 more changed file: see <code>changes.patch</code>" in text


def test_the_summary_says_what_changed_what_is_left_where_and_what_next(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert("-i", "proj/train.py", "-o", "out") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"2 edits in 1 of 1 file for torch_npu {chosen().name} → out/train_msft"
    assert "       1  JM103 tensor-cuda-method" in lines
    assert any(line.startswith("Left for you: 2 warnings") for line in lines)
    assert "Reports in out/train_msft:" in lines
    assert lines[-1] == "Next: jumar run out/train_msft/train.py"


def test_nothing_is_left_in_one_sentence(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert convert("-i", "proj/sub", "--dry-run") == 0
    assert "\nNothing is left for you in 1 file that was read.\n" in capsys.readouterr().out


def test_a_folder_without_sources_is_questioned(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "empty").mkdir()
    assert convert("-i", "proj/empty", "--dry-run") == 0
    assert "There is no source in proj/empty: is it the right folder?" in capsys.readouterr().out


def test_verbose_prints_every_finding_and_quiet_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    convert("-i", "proj/train.py", "--dry-run", "-v")
    assert "train.py:3:7: JM103 converted: `.cuda` moves to a CUDA device." in capsys.readouterr().out
    convert("-i", "proj", "--dry-run", "-q")
    assert capsys.readouterr() == ("", "")


def test_a_diff_is_all_that_stdout_gets(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert convert("-i", "proj/sub", "--diff") == 0
    output = capsys.readouterr()
    assert output.out.startswith("diff --git a/net.py b/net.py\n")
    assert output.out.endswith("+    return x.npu()\n")
    assert f"1 edit in 1 of 1 file for torch_npu {chosen().name} (nothing written)" in output.err
    assert not (project / "sub_msft").exists()


def test_findings_are_written_as_sarif_and_only_over_sarif(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert convert("-i", "proj/sub", "--dry-run", "-q", "--sarif", "f.sarif") == 0
    (run,) = json.loads(Path("f.sarif").read_text())["runs"]
    assert [result["ruleId"] for result in run["results"]] == ["JM103"]
    assert convert("-i", "proj/sub", "--dry-run", "-q", "--sarif", "proj/train.py") == 2
    assert "is no SARIF file" in capsys.readouterr().err
    assert (project / "train.py").read_text() == TRAIN


def test_an_excluded_file_or_folder_is_left_out_altogether(project: Path) -> None:
    (project / "vendor" / "deep").mkdir(parents=True)
    (project / "vendor" / "deep" / "a.py").write_text("x.cuda()\n")
    assert convert("-i", "proj", "-o", "out", "-q", "--exclude", "old.py", "--exclude", "vendor") == 0
    out = Path("out/proj_msft")
    assert [(out / name).exists() for name in ("old.py", "vendor", "sub/net.py")] == [False, False, True]


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("net.py", ["sub/net.py"]),
        ("sub", ["sub"]),
        ("sub/", ["sub"]),
        ("./sub/*.py", ["sub/net.py"]),
        ("*.py", ["old.py", "sub/net.py", "train.py"]),
        ("sub/*", ["sub"]),
        ("/net.py", []),
    ],
)
def test_a_glob_is_a_name_anywhere_or_a_path_from_the_root(glob: str, expected: list[str], project: Path) -> None:
    assert [path.relative_to("proj").as_posix() for path in excluded(Path("proj"), (glob,))] == expected


def test_a_glob_for_one_file_is_wrong_use(project: Path) -> None:
    with pytest.raises(InputError, match="leaves files of a folder out"):
        excluded(project / "train.py", ("x",))


def test_a_proof_that_finds_nothing_says_so(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert convert("-i", "proj/train.py", "--dry-run", "--verify") == 0
    assert "Verified (static proof): nothing wrong" in capsys.readouterr().out


TRAINING = """import torch
from torch.utils.data import DataLoader

def main():
    model = torch.nn.Linear(4, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=4, shuffle=True)
    for x, y in loader:
        loss = (model(x.cuda()) - y.cuda()).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

if __name__ == '__main__':
    main()
"""


def test_distributed_leaves_a_launch_script_that_can_be_started(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "train.py").write_text(TRAINING)
    assert convert("-i", "proj/train.py", "-o", "out", "distributed", "-m", "train.py") in (0, 1)
    launcher = Path("out/train_msft/run_distributed_npu.sh")
    assert os.access(launcher, os.X_OK)
    assert launcher.read_text().startswith("#!")
    assert capsys.readouterr().out.rstrip().endswith(f"Next: bash {launcher}")


def test_a_refused_distribution_leaves_no_launch_script(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_text("import torch\nx = torch.zeros(2).cuda()\n")
    assert convert("-i", "proj/train.py", "-o", "out", "distributed", "-m", "train.py") == 1
    assert not Path("out/train_msft/run_distributed_npu.sh").exists()
    said = capsys.readouterr().out
    assert "JM181" in said
    assert "run_distributed_npu.sh" not in said


def test_sources_are_changed_in_place_with_a_patch_that_leads_back(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (project / "sub" / "net.py").read_text()
    assert convert("-i", "proj/sub", "--in-place") == 0
    assert (project / "sub" / "net.py").read_text() == before.replace("cuda", "npu")
    reports = project / "sub_msft"
    assert {path.name for path in reports.iterdir()} == REPORTS
    last = capsys.readouterr().out.rstrip().splitlines()[-1]
    assert last == f"Back to what it was: git -C proj/sub apply -R {reports / 'changes.patch'}"
    subprocess.run(last.partition(": ")[2].split(), check=True)
    assert (project / "sub" / "net.py").read_text() == before


def test_the_way_back_works_below_the_top_of_a_repository(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run(["git", "init", "-q", "."], check=True)
    before = (project / "sub" / "net.py").read_text()
    convert("-i", "proj/sub", "--in-place")
    last = capsys.readouterr().out.rstrip().splitlines()[-1]
    assert "--directory=proj/sub" in last
    subprocess.run(last.partition(": ")[2].split(), check=True)
    assert (project / "sub" / "net.py").read_text() == before


def test_a_second_conversion_in_place_keeps_the_patch_of_the_first(project: Path) -> None:
    before = (project / "sub" / "net.py").read_text()
    convert("-i", "proj/sub", "--in-place", "-q")
    first = (project / "sub_msft" / "changes.patch").read_bytes()
    assert convert("-i", "proj/sub", "--in-place", "-q") == 2  # the folder with the reports exists
    (project / "sub" / "net.py").write_text(before + "y.cuda()\n")
    assert convert("-i", "proj/sub", "--in-place", "-q", "--force") == 0
    assert (project / "sub_msft" / "changes.patch").read_bytes() == first
    assert b"y.npu()" in (project / "sub_msft" / "changes.2.patch").read_bytes()


@pytest.mark.parametrize("words", [["--jobs", "2"], ["--no-cache"], ["--jobs", "1", "--no-cache"]])
def test_processes_and_cache_change_nothing(words: list[str], project: Path) -> None:
    assert convert("-i", "proj/sub", "-o", "out", "-q", *words) == 0
    assert Path("out/sub_msft/net.py").read_text() == "def f(x):\n    return x.npu()\n"
