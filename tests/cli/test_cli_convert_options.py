"""Options of `jumar convert`: the seed's own, what cannot stand together, and wrong use in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from jumar.base.errors import UsageError
from jumar.cli.commands.convert import command
from jumar.cli.commands.convert.selection import distributed, rule_codes
from jumar.cli.main import main
from jumar.show.convert.request import Request

SCRIPT = "import torch\nmodel.cuda()\nstate = torch.load('m.pt')\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "proj" / "sub").mkdir(parents=True)
    (tmp_path / "proj" / "train.py").write_text(SCRIPT)
    (tmp_path / "proj" / "sub" / "net.py").write_text("x.cuda()\n")
    return tmp_path


def convert(*words: str) -> int:
    return main(["convert", *words])


def sentence(capsys: pytest.CaptureFixture[str]) -> str:
    """The one sentence on stderr."""
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith(("jumar: ", "Error: "))]
    assert len(lines) == 1
    return lines[0]


def test_the_options_are_these() -> None:
    names = sorted(name for option in command.params if isinstance(option, click.Option) for name in option.opts)
    expected = """
    --baseline --check --diff --disable --dry-run --enable --exclude --fail-on --force --in-place --input --jobs --json
    --no-cache --output --quiet --rule --sarif --similar --specify-device --stdin-filename --steps --target --test-rules
    --torch-version --framework --main --distributed-mode --compat
    --unsafe --verbose --verify --verify-run --write-baseline -c -d -i -m -o -q -r -s -sim -v
    """
    assert names == sorted(expected.split())


@pytest.mark.parametrize("word", ["-sim", "--similar"])
def test_the_seeds_long_short_option_is_no_row_of_letters(word: str, folder: Path) -> None:
    context = command.make_context("convert", ["-i", "train.py", word, "-s"])
    assert (context.params["similar"], context.params["specify"], context.params["source"]) == (True, True, "train.py")


def test_the_help_fits_a_terminal_and_is_in_groups(monkeypatch: pytest.MonkeyPatch, capsys) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("COLUMNS", "80")
    assert convert("--help-all") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    heads = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert heads == [
        "Sources:", "Output:", "Rewriting:", "Scripts of TensorFlow:", "Proof:", "Continuous integration:",
        "Messages and speed:",
    ]  # fmt: skip
    assert "    jumar convert -i proj -o out distributed -m train.py -t net" in lines


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", '"-i IN" must say what to convert. Give a script, a folder, or - for stdin.'),
        ("train.py", '"-i IN" must say what to convert. Try -i train.py.'),
        ("-i train.py more", '"more" is no option.'),
        ("-i none.py", "there is none of that name"),
        (
            "-i train.py --enable JM10",
            '"--enable JM10" must name a rule of conversion by its code or name, or a recipe',
        ),
        ("-i train.py --disable is-cda", "Try JM104 (is-cuda)."),
        ("-i train.py --disable zzzzzz", "`jumar rule` lists them."),
        (
            "-i train.py --enable is-cuda --disable jm104",
            '"--enable JM104" and "--disable JM104" cannot stand together',
        ),
        ("-i train.py --check -o out", '"--check" and "-o" cannot stand together, because a check converts nothing.'),
        ("-i train.py --check --fail-on never", "because a check fails on every new use"),
        ("-i train.py --baseline b", '"--baseline" has an effect only with --check.'),
        ("-i train.py --write-baseline", '"--write-baseline" has an effect only with --check.'),
        ("-i train.py --check --write-baseline", '"--write-baseline" has an effect only with --baseline FILE.'),
        ("-i train.py --quiet --json", "because the document is all that --json prints"),
        ("-i train.py -q -v", "because they ask for the opposite"),
        ("-i train.py --json -v", "because the document has everything already"),
        ("-i train.py --stdin-filename a.py", '"--stdin-filename" has an effect only with "-i -".'),
        ("-i train.py --diff --force", '"--force" has an effect only with -o or --in-place.'),
        ("-i train.py --steps 3", '"--steps" has an effect only with --verify-run.'),
        ("-i - -o out", '"-i -" and "-o" cannot stand together'),
        ("-i - --json --diff", "because stdout takes either the diff or one document"),
        ("-i train.py --exclude x", "leaves files of a folder out, and train.py is a file"),
        ("-i train.py -r none.json", '"none.json" must be a file of rules, and cannot be read'),
        ("--test-rules", '"--test-rules" has an effect only with -r FILE.'),
        ("-i proj -m none.py", '"-m none.py" must be a script of proj; there is none of that name.'),
        ("-i - -m train.py", '"-m" and "-i -" cannot stand together'),
        ("-i proj --framework torch -c", '"-c" is for scripts of TensorFlow'),
        ("-i proj --framework tensorflow distributed -m train.py", '"distributed" is for PyTorch'),
        ("-i proj distributed -m none.py", '"-m none.py" must be a script of proj; there is none of that name.'),
        ("-i proj distributed -m train.py -t 1x", '"-t 1x" must be the name of the variable that holds the model'),
        ("-i proj distributed", "Missing option '-m' / '--main'"),
        ("-i proj --in-place distributed -m train.py", '"--in-place" and "distributed" cannot stand together'),
        ("-i proj --dry-run --verify-run ''", "must be a script of IN with its arguments"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_two(
    words: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.rglob("*"))
    assert convert(*(word if word != "''" else "" for word in words.split())) == 2
    assert said in sentence(capsys)
    assert sorted(folder.rglob("*")) == before


def test_a_script_given_by_distributed_is_found_below_the_sources_or_by_its_own_path(folder: Path) -> None:
    for main_script in ("train.py", "proj/train.py", str(folder / "proj" / "train.py")):
        found = distributed(["distributed", "-m", main_script, "--target_model", "net"], Path("proj"))
        assert found is not None
        assert (found.main, found.model) == ("train.py", "net")
    assert distributed([], Path("proj")) is None


def test_the_help_of_distributed_is_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert convert("-i", "train.py", "distributed", "--help") == 0
    assert "The variable that holds the model." in capsys.readouterr().out


def test_rules_are_named_by_code_or_name_and_with_commas() -> None:
    assert rule_codes("--enable", ("JM101, is-cuda", "jm103")) == {"JM101", "JM103", "JM104"}


def test_options_that_only_look_may_be_added_to_any_call_that_writes() -> None:
    request = Request(source="a", out=Path("o"), in_place=True, force=True, dry_run=True)
    assert not request.writes


@pytest.mark.parametrize(
    ("fields", "writes"),
    [({}, True), ({"diff": True}, False), ({"diff": True, "out": Path("o")}, True), ({"check": True}, False)],
)
def test_a_diff_writes_only_where_a_folder_is_given(fields: dict[str, object], writes: bool) -> None:
    assert Request(source="a", **fields).writes is writes  # type: ignore[arg-type]


def test_a_contradiction_names_both_options() -> None:
    with pytest.raises(UsageError, match='"--check" and "--diff" cannot stand together'):
        Request(source="a", check=True, diff=True)


def test_a_rule_that_is_left_out_changes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert convert("-i", "train.py", "--dry-run", "--json", "--disable", "tensor-cuda-method") == 0
    assert json.loads(capsys.readouterr().out)["num_edits"] == 0


def test_a_rule_that_is_enabled_makes_its_unsafe_edits(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert convert("-i", "train.py", "--diff", "--enable", "JM112") == 0
    assert "+state = torch.load('m.pt', map_location='cpu')" in capsys.readouterr().out


RULES = {"rules": {"FuncNameModifyRule": [{"old_name": "lib.f", "new_name": "g"}]}}


def test_rules_of_the_user_are_applied_and_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "rules.json").write_text(json.dumps(RULES))
    (folder / "own.py").write_text("import lib\nlib.f()\n")
    assert convert("-i", "own.py", "-r", "rules.json", "--diff") == 0
    output = capsys.readouterr()
    assert "+lib.g()" in output.out
    assert "JM195 user-rule" in output.err


def test_the_tests_of_a_rule_file_are_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule = {"name": "a", "match": "lib.f", "rename": "lib.g"}
    good = {"before": "import lib\nlib.f()", "after": "import lib\nlib.g()"}
    path = folder / "rules.json"
    path.write_text(json.dumps({"rules": [{**rule, "tests": [good]}]}))
    assert convert("-r", "rules.json", "--test-rules") == 0
    assert capsys.readouterr().out == "1 test of 1 rule: none failed.\n"
    path.write_text(json.dumps({"rules": [{**rule, "tests": [good, {**good, "after": "x"}]}]}))
    assert convert("-r", "rules.json", "--test-rules") == 1
    output = capsys.readouterr().out
    assert "rules[0].tests[1] (a) failed:\n" in output
    assert output.endswith("2 tests of 1 rule: 1 failed.\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-r rules.json --test-rules", "must have tests to be run"),
        ("-i a.py -r rules.json --test-rules", "converts nothing"),
    ],
)
def test_tests_that_cannot_be_run_are_wrong_use(
    words: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "rules.json").write_text(json.dumps(RULES))
    assert convert(*words.split()) == 2
    assert said in sentence(capsys)
