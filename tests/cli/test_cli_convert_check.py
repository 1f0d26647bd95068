"""`jumar convert --check`: new uses of CUDA against a committed baseline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jumar.cli.main import main


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("import torch\nx.cuda()\n")
    return tmp_path


def check(*words: str) -> int:
    return main(["convert", "--check", *words])


def test_without_a_baseline_every_use_is_new(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("-i", "src") == 1
    output = capsys.readouterr().out
    assert output.startswith("1 new use of CUDA in 1 file (0 known).\n")
    assert "--baseline FILE --write-baseline makes these the known ones." in output
    assert sorted(path.name for path in project.iterdir()) == ["src"]


def test_known_uses_pass_wherever_their_lines_move(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("-i", "src", "--baseline", "known.txt", "--write-baseline") == 0
    assert capsys.readouterr().out == "1 known use of CUDA → known.txt. Commit it with the sources.\n"
    (project / "src" / "a.py").write_text("import torch\n\n\nif y:\n    x.cuda()\n")
    for source in ("src", ".", "src/a.py"):
        assert check("-i", source, "--baseline", "known.txt") == 0
    (project / "src" / "a.py").write_text("import torch\nx.cuda()\nnew.cuda()\n")
    assert check("-i", "src", "--baseline", "known.txt") == 1
    assert "a.py:3" in capsys.readouterr().out


def test_a_use_that_is_gone_is_an_improvement(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check("-i", "src", "--baseline", "known.txt", "--write-baseline", "-q")
    (project / "src" / "a.py").write_text("import torch\n")
    assert check("-i", "src", "--baseline", "known.txt") == 0
    output = capsys.readouterr().out
    assert "1 known use gone, which is an improvement:\n  JM103  src/a.py: x.cuda()\n" in output


def test_a_check_of_a_part_keeps_what_the_baseline_says_of_the_rest(project: Path) -> None:
    (project / "lib").mkdir()
    (project / "lib" / "b.py").write_text("y.cuda()\n")
    check("-i", ".", "--baseline", "known.txt", "--write-baseline", "-q")
    all_of_it = (project / "known.txt").read_text()
    check("-i", "src", "--baseline", "known.txt", "--write-baseline", "-q")
    assert (project / "known.txt").read_text() == all_of_it
    assert "lib/b.py" in all_of_it


def test_an_ignored_line_is_no_use(project: Path) -> None:
    (project / "src" / "a.py").write_text("x.cuda()  # jumar: ignore\n")
    assert check("-i", "src", "-q") == 0


def test_the_document_has_new_and_gone_uses(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check("-i", "src", "--baseline", "known.txt", "--write-baseline", "-q")
    (project / "src" / "a.py").write_text("y.cuda()\ny.cuda()\n")
    assert check("-i", "src", "--baseline", "known.txt", "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["new"] == [{"code": "JM103", "path": "src/a.py", "line": "y.cuda()", "count": 2}]
    assert document["gone"] == [{"code": "JM103", "path": "src/a.py", "line": "x.cuda()", "count": 1}]
    assert (document["num_new"], document["num_gone"], document["num_known"]) == (2, 1, 1)


def test_new_uses_are_written_as_sarif_with_the_severity_of_their_rule_and_a_fix(project: Path) -> None:
    assert check("-i", "src", "-q", "--sarif", "new.sarif") == 1
    (result,) = json.loads((project / "new.sarif").read_text())["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("JM103", "warning")
    assert result["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"]["text"] == "x.npu()\n"


def test_a_file_that_is_no_baseline_is_not_replaced(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("-i", "src", "--baseline", "src/a.py", "--write-baseline") == 2
    assert "must be rule, file, count and text" in capsys.readouterr().err
    assert (project / "src" / "a.py").read_text() == "import torch\nx.cuda()\n"


def test_a_missing_baseline_is_wrong_use(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("-i", "src", "--baseline", "none.txt") == 2
    assert "Make it with --write-baseline" in capsys.readouterr().err


# --- several files, as hooks name them


def test_files_are_named_one_after_another(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "src" / "b c.py").write_text("import torch\ny.cuda()\n")
    (project / "clean.py").write_text("import torch\n")
    assert check("src/a.py", "src/b c.py", "clean.py") == 1
    output = capsys.readouterr().out
    assert output.startswith("2 new uses of CUDA in 3 files (0 known).\n")
    assert "src/a.py:2, src/b c.py:2" in output
    assert check("clean.py") == 0


def test_known_uses_of_several_files_pass_and_those_of_others_are_not_gone(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "src" / "b.py").write_text("import torch\ny.cuda()\n")
    assert check("--baseline", "known.txt", "--write-baseline", "src/a.py", "src/b.py") == 0
    whole = (project / "known.txt").read_text()
    capsys.readouterr()
    assert check("--baseline", "known.txt", "src/a.py", "src/b.py") == 0
    assert check("--baseline", "known.txt", "src/b.py") == 0
    assert "gone" not in capsys.readouterr().out
    assert check("--baseline", "known.txt", "--write-baseline", "src/b.py") == 0
    assert (project / "known.txt").read_text() == whole


def test_several_files_are_written_as_sarif_from_the_current_folder(project: Path) -> None:
    (project / "src" / "b.py").write_text("import torch\ny.cuda()\n")
    assert check("--sarif", "out.sarif", "src/a.py", "src/b.py") == 1
    document = json.loads((project / "out.sarif").read_text())
    places = [one["locations"][0]["physicalLocation"] for one in document["runs"][0]["results"]]
    assert [place["artifactLocation"]["uri"] for place in places] == ["src/a.py", "src/b.py"]


def test_an_option_behind_the_files_is_said_to_stand_wrong(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("src/a.py", "--baseline", "known.txt") == 2
    assert '"--baseline" must stand before the files.' in capsys.readouterr().err
