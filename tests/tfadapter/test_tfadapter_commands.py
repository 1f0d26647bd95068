"""Command lines of aoe, atc and jumar tune as they are written: quoting, `=`, repeats, unknown options, line ends."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.base.errors import InputError
from jumar.tfadapter.checks.report import commands_of
from jumar.tfadapter.source.commands import commands_in, is_command

NAMES = st.sampled_from(["job_type", "input_shape", "precision_mode", "out_nodes", "soc_version", "made_up"])
VALUES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=20)


def one(text: str):
    (found,) = commands_in(text)
    return found


def test_the_documents_line_is_read():
    found = one("aoe --job_type=2 --model_path=./dump_path")
    assert (found.program, dict(found.last)) == ("aoe", {"job_type": "2", "model_path": "./dump_path"})
    assert str(found) == "aoe --job_type=2 --model_path=./dump_path"


@given(
    st.lists(st.tuples(NAMES, VALUES, st.booleans()), max_size=6), st.sampled_from(["\n", "\r\n", " \\\n", " \\\r\n"])
)
def test_any_quoted_value_comes_back(options, end):
    words = []
    for name, value, equals in options:
        is_option = value.startswith("-") or value in {"&&", "||", "|", ";", "&", ">", ">>", "2>", "2>&1", "#"}
        words.append(shlex.quote(f"--{name}={value}") if equals or is_option else f"--{name} {shlex.quote(value)}")
    joined = (end if "\\" in end else " ").join(["atc", *words])
    text = (
        f"# a comment\r\nexport A=1{end.strip(chr(92)).strip(' ')}" + ("\r\n" if "\\" in end else end) + joined + "\r\n"
    )
    found = [command for command in commands_in(text) if command.program == "atc"]
    assert len(found) == 1
    assert [(name, value) for name, value in found[0].options] == [(name, value) for name, value, _ in options]
    assert one(str(found[0])).options == found[0].options


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text):
    for command in commands_in(text, bare=True):
        assert isinstance(str(command), str)
    assert is_command(text) in (True, False)


def test_a_repeated_option_holds_its_last_value_and_is_written_once():
    found = one("atc --precision_mode=force_fp16 --output=a --precision_mode force_fp32")
    assert found.last["precision_mode"] == "force_fp32"
    assert found.changed({}) == "atc --precision_mode=force_fp32 --output=a"


def test_two_commands_of_a_line_are_two():
    found = list(commands_in("aoe --job_type=1 && /usr/bin/atc -f 5 --model=a.onnx > log; echo done"))
    assert [(one.program, dict(one.last)) for one in found] == [
        ("aoe", {"job_type": "1"}), ("atc", {"framework": "5", "model": "a.onnx"}),
    ]  # fmt: skip


def test_options_of_jumar_tune_have_hyphens():
    found = one("jumar tune m.onnx --job-type 2 --json --input-shape 'x:1,3'")
    assert (found.arguments, dict(found.last)) == (("m.onnx",), {"job_type": "2", "json": "", "input_shape": "x:1,3"})
    assert found.changed({"input_shape": "x:2,3"}) == "jumar tune m.onnx --job-type=2 --json --input-shape=x:2,3"


def test_a_negative_number_is_a_value():
    assert one("atc --input_shape -1,3").last == {"input_shape": "-1,3"}


def test_a_changed_command_takes_options_out_and_in():
    assert one("atc --a=1 --b=2").changed({"a": None, "c": "3 4"}) == "atc --b=2 '--c=3 4'"


def test_other_programs_are_no_command():
    assert list(commands_in("python train.py --precision_mode=x\njumar record a.py\n--job_type=2\n")) == []
    assert len(list(commands_in("--job_type=2", bare=True))) == 1


def test_a_file_with_windows_line_ends_and_a_mark_is_read(tmp_path: Path):
    path = tmp_path / "tune.txt"
    path.write_bytes(b'\xef\xbb\xbfaoe --job_type=2 \\\r\n  --input_shape="x:1,2" \\\r\n  --framework=5\r\n')
    (found,) = commands_of(str(path))
    assert dict(found.last) == {"job_type": "2", "input_shape": "x:1,2", "framework": "5"}


@pytest.mark.parametrize("text", ["no_such_file.py", "aoe --input_shape='x:1", ""])
def test_a_text_that_is_no_command_is_one_sentence(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if not text:
        return
    with pytest.raises(InputError) as caught:
        commands_of(text)
    assert "\n" not in str(caught.value)
