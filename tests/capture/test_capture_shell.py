"""What a shell script starts, read from its text."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar.capture.process.program import parse_program
from jumar.capture.process.shell import commands


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python train.py --lr 1\n", ["python", "train.py", "--lr", "1"]),
        ("LR=0.1\nNAME=train\npython $NAME.py --lr ${LR}\n", ["python", "train.py", "--lr", "0.1"]),
        ("exec torchrun \\\n  --nproc-per-node 2 \\\n  train.py\n", ["torchrun", "--nproc-per-node", "2", "train.py"]),
        ('python train.py "$@"\n', ["python", "train.py", "--x", "a b"]),
        ("python train.py $1\n", ["python", "train.py", "--x"]),
        ("GPUS=${GPUS:-4}\ndeepspeed --num_gpus=$GPUS t.py\n", ["deepspeed", "--num_gpus=4", "t.py"]),
        ('A=(--a 1\n  --b 2)\nA+=(--c)\npython t.py "${A[@]}"\n', ["python", "t.py", *["--a", "1", "--b", "2", "--c"]]),
        ('A="--a"\nA+=" --b"\npython t.py $A\n', ["python", "t.py", "--a", "--b"]),
        ("RUN='torchrun --standalone'\nX=1 $RUN t.py | tee log\n", ["torchrun", "--standalone", "t.py"]),
        ("if true; then nohup python t.py & fi\n", ["python", "t.py"]),
        ("export A=1 B=2; cd . && python t.py  # other.py\n", ["python", "t.py"]),
        ("cat <<EOF\npython other.py\nEOF\npython t.py\n", ["python", "t.py"]),
        ("F=$UNSET\npython t.py$F\n", ["python", "t.py"]),
        ("python t.py ${MORE:+--more}\n", ["python", "t.py"]),
    ],
)
def test_commands_have_their_variables_put_in(text: str, expected: list[str], tmp_path: Path) -> None:
    found = list(commands(tmp_path / "run.sh", text, ["--x", "a b"], {}))
    assert [words for words in found if words[0] in {"python", "torchrun", "deepspeed"}] == [expected]


def test_the_scripts_own_folder_is_put_in(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    for folder in ('$(dirname "$0")', '$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)', "$(dirname $0)"):
        text = f'HERE="{folder}"\npython "$HERE/t.py"\n'
        assert list(commands(script, text, [], {})) == [["python", str(tmp_path / "t.py")]], folder


@pytest.mark.parametrize(
    "text",
    [
        'N=train\nexec torchrun --nproc-per-node 2 "$N".py "$@"\n',
        'torchrun \\\n  -m package.train "$@"\n',
        "M=package.train\npython -m $M\n",
        "bash inner.sh\n",
        "./inner.sh\n",
        "$UNKNOWN_LAUNCHER train.py\n",
    ],
)
def test_the_scripts_that_a_shell_script_starts_are_found(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "package").mkdir()
    for name in ("train.py", "other.py", "package/__init__.py", "package/train.py"):
        (tmp_path / name).write_text("print(1)\n")
    (tmp_path / "inner.sh").write_text("S=train\npython ${S}.py\n")
    (tmp_path / "run.sh").write_text(text)
    entries = parse_program(["bash", "run.sh", "--epochs", "1"]).entries
    assert [entry.name for entry in entries] == ["train.py"]
    assert entries[0].parent.name == ("package" if "package" in text else tmp_path.name)


def test_a_shell_script_that_starts_itself_ends(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(f"bash {script}\n")
    assert parse_program(["bash", str(script)]).entries == ()
