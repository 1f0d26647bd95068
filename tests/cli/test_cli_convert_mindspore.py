"""`jumar convert` says of MindSpore's sources that it is not for them, and converts what lies beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.cli.main import EXIT_FINE, EXIT_USAGE, main

MINDSPORE = "# PyTorch's torch.nn is mindspore.nn here\nimport mindspore as ms\nms.set_context(mode=0)\n"
PYTORCH = "import torch\nx = torch.zeros(2).cuda()\n"
BOTH = "import mindspore as ms\n" + PYTORCH


def convert(folder: Path, *words: str) -> int:
    return main(["convert", "-i", str(folder), "-o", str(folder.parent / "out"), *words])


@pytest.mark.parametrize("words", [(), ("--check",)])
def test_a_folder_of_mindspore_alone_is_refused_in_one_sentence(
    tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "project"
    source.mkdir()
    (source / "train.py").write_text(MINDSPORE)
    (source / "start.py").write_text("import train\n")
    given = ["convert", "-i", str(source), *(words or ("-o", str(tmp_path / "out")))]
    assert main(given) == EXIT_USAGE
    assert "train.py is a program of MindSpore, and `jumar convert` is for PyTorch" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_sources_of_mindspore_beside_pytorch_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "project"
    source.mkdir()
    (source / "ms.py").write_text(MINDSPORE)
    (source / "pt.py").write_text(PYTORCH)
    assert convert(source) == EXIT_FINE
    out = capsys.readouterr().out
    assert "Not converted, because they are of MindSpore: ms.py" in out
    assert "Nothing is left for you in 1 file that was read" in out
    assert "of MindSpore: ms.py" in (tmp_path / "out" / "project_msft" / "index.html").read_text("utf-8")
    assert main(["convert", "-i", str(source), "--check"]) == 1
    assert "Not converted, because they are of MindSpore: ms.py" in capsys.readouterr().out


def test_a_source_of_both_frameworks_is_converted(tmp_path: Path) -> None:
    source = tmp_path / "project"
    source.mkdir()
    (source / "both.py").write_text(BOTH)
    assert convert(source) == EXIT_FINE
    converted = (tmp_path / "out" / "project_msft" / "both.py").read_text("utf-8")
    assert "torch.zeros(2).npu()" in converted


def test_a_folder_with_nothing_of_pytorch_but_a_comment_is_no_error_of_the_report(tmp_path: Path) -> None:
    source = tmp_path / "project"
    source.mkdir()
    (source / "ms.py").write_text(MINDSPORE)
    (source / "run.sh").write_text("export CUDA_VISIBLE_DEVICES=0\npython ms.py\n")
    assert convert(source) == EXIT_FINE
