"""The options of `jumar convert`, and the function that a call leads to."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.base.errors import UsageError
from jumar.base.text import counted
from jumar.cli.commands.convert.selection import check_selection, distributed, rule_codes
from jumar.cli.commands.convert.tensorflow import check_framework, tensorflow
from jumar.cli.help import options_of
from jumar.cli.main import Command
from jumar.cli.options import TORCH_VERSION_HELP, chosen_release
from jumar.show.convert.request import STDIN, Job, Request

if TYPE_CHECKING:
    from jumar.convert.model.options import Framework, Strategy, Target
    from jumar.convert.user_rules.model import UserRules

_sources = options_of("Sources")
_output = options_of("Output")
_rewriting = options_of("Rewriting")
_tensorflow = options_of("Scripts of TensorFlow")
_proof = options_of("Proof")
_checking = options_of("Continuous integration")
_telling = options_of("Messages and speed")

_EPILOG = """\b
Examples:
  jumar convert -i train.py -o converted
  jumar convert -i proj --diff | less
  jumar convert -i proj -o out distributed -m train.py -t net
  jumar convert -i tf_proj -o out -m train.py -d horovod
  jumar convert -i src --check --baseline cuda-uses.txt
  jumar convert -i - < train.py > train_npu.py

distributed -m MAIN [-t MODEL], at the end, turns a script for one device into
one for several. jumar rule CODE explains a rule.
"""


@click.command(
    cls=Command,
    epilog=_EPILOG,
    context_settings={"allow_interspersed_args": False},
    options_metavar="-i IN [OPTIONS]",
)
@_sources("-i", "--input", "source", metavar="IN", help="A script, a folder, or - for stdin to stdout.")
@_sources(
    "--stdin-filename",
    more=True,
    metavar="NAME",
    help="With -i -: file name of the source, for messages and for its kind.",
)
@_sources("--exclude", more=True, multiple=True, metavar="GLOB", help="Leave these files or folders out altogether.")
@_output(
    "-o",
    "--output",
    "out",
    type=click.Path(path_type=Path),
    metavar="OUT",
    help="Write NAME_msft/ into OUT.  [default: beside IN]",
)
@_output("--in-place", more=True, is_flag=True, help="Change IN itself; the reports and a patch back go to NAME_msft/.")
@_output("--dry-run", is_flag=True, help="Convert no file; say what would change and what would be left.")
@_output("--diff", is_flag=True, help="Print the changes as a patch; without -o, write nothing.")
@_output("--force", is_flag=True, help="Replace NAME_msft/ where it exists.")
@_rewriting(
    "--target",
    type=click.Choice(["npu", "agnostic"]),
    default="npu",
    show_default=True,
    help="npu: torch_npu's names. agnostic: one script for CUDA, NPU and CPU.",
)
@_rewriting(
    "--framework",
    more=True,
    type=click.Choice(["torch", "tensorflow"]),
    metavar="NAME",
    help="torch or tensorflow.  [default: each file's own, by its imports]",
)
@_rewriting("--torch-version", "torch_version", more=True, metavar="VERSION", help=TORCH_VERSION_HELP)
@_tensorflow("-m", "--main", "main", more=True, metavar="MAIN", help="The entry script, where it has no main guard.")
@_tensorflow(
    "-d",
    "--distributed-mode",
    "strategy",
    more=True,
    type=click.Choice(["tf_strategy", "horovod"]),
    metavar="MODE",
    help="How it trains on several devices: tf_strategy or horovod.",
)
@_tensorflow(
    "-c", "--compat", "compat", more=True, is_flag=True, help="For TensorFlow 2.6 with tf.compat.v1, not 1.15."
)
@_rewriting(
    "-s", "--specify-device", "specify", more=True, is_flag=True, help="Take the device's number from the environment."
)
@_rewriting(
    "-sim", "--similar", "similar", more=True, is_flag=True, help="Replace APIs that the NPU lacks by similar ones."
)
@_rewriting(
    "-r", "--rule", "rules", type=click.Path(path_type=Path), metavar="FILE", help="Rules of your own, in JSON or TOML."
)
@_rewriting("--test-rules", more=True, is_flag=True, help="Run the tests in the file given with -r, and nothing else.")
@_rewriting(
    "--enable",
    more=True,
    multiple=True,
    metavar="RULE",
    help="Apply an optional rule, by code or name, or a recipe of them: guide, guide-amp, throughput, affinity.",
)
@_rewriting("--disable", more=True, multiple=True, metavar="RULE", help="Leave a rule out.")
@_rewriting("--unsafe", more=True, is_flag=True, help="Also make edits that may change what the program does.")
@_proof("--verify", is_flag=True, help="Prove that the result parses and names only what exists.")
@_proof(
    "--verify-run",
    more=True,
    metavar="COMMAND",
    help='Also run a script of IN, such as "train.py --lr 1", before and after, and compare.',
)
@_proof(
    "--steps", more=True, type=click.IntRange(min=1), metavar="N", help="Training steps of --verify-run.  [default: 3]"
)
@_checking("--check", is_flag=True, help="Convert nothing; exit with 1 on uses of CUDA that are new.")
@_checking(
    "--baseline", type=click.Path(path_type=Path), metavar="FILE", help="With --check: the file of the known uses."
)
@_checking("--write-baseline", more=True, is_flag=True, help="With --check: write the present uses to the baseline.")
@_checking(
    "--sarif",
    more=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write the findings as SARIF 2.1.0.",
)
@_checking(
    "--fail-on",
    type=click.Choice(["advice", "warning", "error", "never"]),
    metavar="SEVERITY",
    help="Exit with 1 from advice, warning or error on, or never.  [default: error]",
)
@_telling("--json", "as_json", is_flag=True, help="Print one JSON document to stdout instead of text.")
@_telling("-q", "--quiet", more=True, is_flag=True, help="Print nothing but errors.")
@_telling("-v", "--verbose", more=True, is_flag=True, help="Print every finding.")
@_telling(
    "--jobs", more=True, type=click.IntRange(min=1), metavar="N", help="Processes to work with.  [default: one a core]"
)
@_telling("--no-cache", more=True, is_flag=True, help="Convert unchanged files again, too.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[distributed -m MAIN] | --check FILE...")
def command(
    *,
    source: str | None,
    target: Target,
    specify: bool,
    similar: bool,
    rules: Path | None,
    test_rules: bool,
    enable: tuple[str, ...],
    disable: tuple[str, ...],
    unsafe: bool,
    torch_version: str | None,
    framework: Framework | None,
    main: str | None,
    strategy: Strategy | None,
    compat: bool,
    no_cache: bool,
    words: tuple[str, ...],
    **given: Any,
) -> int:
    """Rewrite the CUDA parts of IN for the NPU; everything else stays byte for byte.

    The result is OUT/NAME_msft/: the same tree with the reports, of which index.html is the one to read.
    IN is not changed. What is left for you is listed with what to do.
    """
    from jumar.convert import ConvertOptions
    from jumar.convert.user_rules.model import UserRules

    user_rules = _read_rules(rules) if rules is not None else UserRules()
    if test_rules:
        return _test_rules(rules, user_rules, words=(source, *words))
    files, words = _files_to_check(words, check=given["check"])
    sources = [*([source] if source is not None else []), *files]
    if not sources:
        hint = (
            f"Try -i {words[0]}" if words and words[0] != "distributed" else "Give a script, a folder, or - for stdin"
        )
        raise UsageError(f'"-i IN" must say what to convert. {hint}.')
    enabled, disabled = rule_codes("--enable", enable), rule_codes("--disable", disable)
    check_selection(enabled, disabled)
    request = Request(
        source=sources[0],
        more_sources=tuple(sources[1:]),
        cache=not no_cache,
        is_distributed=bool(words),
        arguments=tuple(sys.argv[1:]),
        **given,
    )
    options = ConvertOptions(
        target=target,
        unsafe=unsafe,
        enable=enabled,
        disable=disabled,
        similar=similar,
        device_from_environment=specify,
        user_rules=user_rules,
        distributed=distributed(words, Path(sources[0])) if sources[0] != STDIN else None,
        release=chosen_release(torch_version),
        framework=framework or "",
        tensorflow=tensorflow(sources[0], main, strategy, compat=compat),
    )
    check_framework(options)
    return _way(request)(Job(request=request, options=options))


def _files_to_check(words: tuple[str, ...], *, check: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files of `--check FILE...`, as hooks name them, and the words that are left."""
    if not check or words[:1] == ("distributed",):
        return (), words
    late = next((word for word in words if word.startswith("--")), None)
    if late is not None:
        raise UsageError(f'"{late}" must stand before the files. Write jumar convert --check {late} … FILE...')
    return words, ()


def _way(request: Request) -> Callable[[Job], int]:
    """Return the function that does what is asked for; only its module is imported."""
    if request.is_stdin:
        from jumar.cli.commands.convert.stdin import convert_stdin

        return convert_stdin
    if request.check:
        from jumar.cli.commands.convert.check import check

        return check
    from jumar.cli.commands.convert.sources import convert_sources

    return convert_sources


def _read_rules(path: Path) -> UserRules:
    from jumar.convert.user_rules.load import load

    return load(path)


def _test_rules(path: Path | None, rules: UserRules, words: tuple[str | None, ...]) -> int:
    if path is None:
        raise UsageError('"--test-rules" has an effect only with -r FILE. Name the file that holds the tests.')
    if any(words):
        raise UsageError('"--test-rules" converts nothing. Leave out "-i" and the words at the end.')
    return _run_tests(rules)


def _run_tests(rules: UserRules) -> int:
    """Run the tests and print what failed; return 1 when one did. Raises UsageError for a file without tests."""
    from jumar.convert.verify.trials import failures

    number = sum(len(rule.tests) for rule in rules.rules)
    if not number:
        raise UsageError(f'"{rules.path}" must have tests to be run: give a rule `tests` with `before` and `after`.')
    failed = failures(rules)
    for failure in failed:
        click.secho(f"{failure.place} ({failure.rule}) failed:", fg="red")
        click.echo(failure.text, nl=False)
    click.echo(f"{counted(number, 'test')} of {counted(len(rules.rules), 'rule')}: {len(failed) or 'none'} failed.")
    return int(bool(failed))
