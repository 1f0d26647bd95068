"""A conversion is proven by running both scripts."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from jumar.base.errors import InputError
from jumar.convert import Conversion, convert_tree
from jumar.port import verify_run

SCRIPT = """\
    import argparse
    import json
    import torch
    from package.net import Net

    parser = argparse.ArgumentParser()
    parser.add_argument("--fail", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    net = Net().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        loss = net(torch.randn(8, 4).cuda()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if args.fail and torch.zeros(1).device.type == "cpu":
            raise RuntimeError("asked to fail")
    """
NET = """\
    import torch


    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(4, 2)

        def forward(self, x):
            assert x.is_cuda
            return self.fc(x) * 1.0
    """


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "tools").mkdir(parents=True)
    (root / "tools" / "package").mkdir()
    (root / "tools" / "train.py").write_text(textwrap.dedent(SCRIPT))
    (root / "tools" / "package" / "net.py").write_text(textwrap.dedent(NET))
    return root


def snapshot(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_conversion_that_trains_the_same_agrees_and_leaves_nothing(root: Path) -> None:
    before = snapshot(root)
    proof = verify_run(root / "tools" / "train.py", convert_tree(root), steps=2)
    assert proof.agrees, proof.findings
    assert [run.side for run in proof.targets] == ["npu"]
    assert proof.reference.losses == proof.targets[0].losses
    assert len(proof.reference.losses) == 2
    assert snapshot(root) == before


@pytest.mark.slow
def test_converted_files_may_lie_in_a_tree_of_their_own(root: Path, tmp_path: Path) -> None:
    convert_tree(root).write(tmp_path / "out")
    wrong = tmp_path / "out" / "tools" / "package" / "net.py"
    wrong.write_text(wrong.read_text().replace("* 1.0", "* 1.5"))
    proof = verify_run(
        root / "tools" / "train.py", tmp_path / "out" / "tools" / "train.py", steps=1, root=root, out=tmp_path / "proof"
    )
    assert not proof.agrees
    assert "JM301" in {finding.code for finding in proof.findings}
    assert (tmp_path / "proof" / "npu").is_dir()


@pytest.mark.slow
def test_a_file_that_was_not_converted_fails_on_the_npu(root: Path) -> None:
    conversion = convert_tree(root)
    files = tuple(replace(file, after=file.after.replace(b"is_npu", b"is_cuda")) for file in conversion.changed)
    proof = verify_run(root / "tools" / "train.py", Conversion(root, files), steps=1)
    assert [finding.code for finding in proof.findings] == ["JM902"]
    assert "AssertionError" in proof.findings[0].message


@pytest.mark.slow
def test_a_script_that_fails_by_itself_is_not_run_on_the_npu(root: Path) -> None:
    proof = verify_run(root / "tools" / "train.py", convert_tree(root), ["--fail"], steps=2)
    assert proof.targets == ()
    assert [finding.code for finding in proof.findings] == ["JM901"]
    assert "asked to fail" in proof.findings[0].message


def test_trees_that_do_not_fit_are_refused(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("")
    with pytest.raises(InputError, match="is not a file"):
        verify_run(root / "tools" / "train.py", tmp_path / "missing.py")
    with pytest.raises(InputError, match=r"must end in tools/train\.py"):
        verify_run(root / "tools" / "train.py", other, root=root)
    with pytest.raises(InputError, match="must lie under the root"):
        verify_run(other, root / "tools" / "train.py", root=root)
