"""Folders in, folders out; the user's files are never touched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jumar.base.errors import InputError, OutputError
from jumar.convert import ConvertOptions, convert_files, convert_tree, local_modules
from jumar.convert.engine.project import Conversion

FILES = {
    "train.py": "import torch\nimport nets.resnet\nfrom utils import meter\nmodel.cuda()\n",
    "utils/__init__.py": "",
    "utils/meter.py": "from . import text\nfrom .deep import thing\n",
    "utils/text.py": "x = 1\n",
    "utils/deep/__init__.py": "thing = 1\n",
    "nets/resnet.py": "def f():\n    import late\n",
    "late.py": "import importlib\nimportlib.import_module('plugin')\n",
    "plugin.py": "import train\n",
    "unused.py": "y.cuda()\n",
    "broken.py": "print 'cuda'\n",
    "data/weights.bin": "\x00",
    "run.sh": "python train.py --device cuda\n",
    ".git/config": "[core]\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "run.sh").chmod(0o755)
    (root / "link.py").symlink_to("train.py")
    return root


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_script_brings_the_modules_it_imports_from_its_folder(tree: Path) -> None:
    found = [path.relative_to(tree).as_posix() for path in local_modules(tree / "train.py")]
    assert found[0] == "train.py"
    assert sorted(found) == [
        "late.py", "nets/resnet.py", "plugin.py", "train.py",
        "utils/__init__.py", "utils/deep/__init__.py", "utils/meter.py", "utils/text.py",
    ]  # fmt: skip


def test_a_missing_script_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be a Python file"):
        local_modules(tmp_path / "nothing.py")


def test_a_tree_is_converted_whole_and_the_input_stays(tree: Path, tmp_path: Path) -> None:
    before = contents(tree)
    conversion = convert_tree(tree)
    conversion.write(tmp_path / "out")
    assert contents(tree) == before
    after = contents(tmp_path / "out")
    assert set(after) == set(before) - {".git/config"}
    assert (
        after["train.py"]
        == b"import torch\nimport torch_npu  # noqa: F401\n" + before["train.py"][13:-13] + b"model.npu()\n"
    )
    assert after["broken.py"] == before["broken.py"]
    assert after["data/weights.bin"] == b"\x00"
    assert os.access(tmp_path / "out" / "run.sh", os.X_OK)
    assert (tmp_path / "out" / "link.py").is_symlink()


def test_a_file_that_does_not_parse_is_reported_and_the_rest_goes_on(tree: Path) -> None:
    conversion = convert_tree(tree)
    assert [failure.path for failure in conversion.failures] == ["broken.py"]
    assert [outcome.path for outcome in conversion.changed] == ["run.sh", "train.py", "unused.py"]
    assert "JM115" in {finding.code for finding in conversion.findings}


def test_an_existing_output_is_replaced_only_when_forced(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").write_text("precious")
    conversion = convert_tree(tree)
    with pytest.raises(OutputError, match="exists already"):
        conversion.write(out)
    assert (out / "mine.txt").read_text() == "precious"
    conversion.write(out, force=True)
    assert not (out / "mine.txt").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "project"]


def test_a_failed_write_leaves_nothing_behind(tree: Path, tmp_path: Path) -> None:
    conversion = convert_tree(tree)
    broken = Conversion(conversion.root, conversion.files, ("not/there",))
    with pytest.raises(OutputError, match="cannot be written"):
        broken.write(tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["project"]


@pytest.mark.parametrize("out", [".", ".."])
def test_the_sources_are_never_written_over(tree: Path, out: str) -> None:
    with pytest.raises(OutputError):
        convert_tree(tree).write(tree / out, force=True)
    assert (tree / "train.py").read_text() == FILES["train.py"]


def test_an_output_inside_the_source_is_left_out_of_the_next_run(tree: Path) -> None:
    out = tree / "out" / "project_msft"
    convert_tree(tree, exclude=[out]).write(out)
    again = convert_tree(tree, exclude=[out])
    assert not [outcome.path for outcome in again.files if outcome.path.startswith("out/")]


def test_chosen_files_keep_their_place_under_the_root(tree: Path) -> None:
    conversion = convert_files(tree, [tree / "unused.py", tree / "utils" / "text.py"], ConvertOptions())
    assert [outcome.path for outcome in conversion.files] == ["unused.py", "utils/text.py"]


def test_a_file_outside_the_root_is_an_input_error(tree: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("")
    with pytest.raises(InputError, match="must lie under"):
        convert_files(tree, [other])


def test_a_missing_source_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is none of that name"):
        convert_tree(tmp_path / "nothing")


def test_progress_counts_files(tree: Path) -> None:
    seen: list[tuple[int, int]] = []
    conversion = convert_tree(tree, on_progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (len(conversion.files), len(conversion.files))
