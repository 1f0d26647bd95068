"""Rules by code or name, from `--enable` and `--disable`; the entry script and model, from `distributed`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.base.errors import UsageError
from jumar.cli.main import Command

if TYPE_CHECKING:
    from jumar.convert.model.options import Distributed


def rule_codes(option: str, given: Sequence[str]) -> frozenset[str]:
    """Return the codes of conversion rules given by code, name or recipe, perhaps several with commas between.

    Raises UsageError, which names the nearest, for a word that is none.
    """
    from jumar.base.rules import Registry
    from jumar.convert.rules.manual.program.recipes import RECIPES
    from jumar.convert.rules.order import rules_by_code

    registry = Registry(rules_by_code().values())
    codes: set[str] = set()
    for word in (part.strip() for text in given for part in text.split(",")):
        if word.lower() in RECIPES:
            codes.update(RECIPES[word.lower()])
            continue
        rule = registry.find(word)
        if rule is None:
            names = [name for rule in registry for name in (rule.code.lower(), rule.name)]
            near = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.5)
            found = registry.find(near[0]) if near else None
            hint = f"Try {found.code} ({found.name})" if found else "`jumar rule` lists them"
            raise UsageError(
                f'"{option} {word}" must name a rule of conversion by its code or name, or a recipe '
                f"({', '.join(RECIPES)}). {hint}."
            )
        codes.add(rule.code)
    return frozenset(codes)


def check_selection(enable: frozenset[str], disable: frozenset[str]) -> None:
    """Raise UsageError for a rule that is both enabled and disabled."""
    for code in sorted(enable & disable):
        raise UsageError(f'"--enable {code}" and "--disable {code}" cannot stand together. Leave one out.')


@click.command("distributed", cls=Command, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-m", "--main", required=True, metavar="MAIN", help="The script that training starts from.")
@click.option(
    "-t",
    "--target-model",
    "--target_model",
    "model",
    default="model",
    show_default=True,
    metavar="NAME",
    help="The variable that holds the model.",
)
def distributed_command(main: str, model: str) -> tuple[str, str]:
    """Make a script for one device one for several: stands at the end of the statement.

    Example: jumar convert -i proj -o out distributed -m train.py -t net
    """
    return main, model


def distributed(words: Sequence[str], source: Path) -> Distributed | None:
    """Read what stands behind the options: nothing, or `distributed -m MAIN [-t MODEL]`. Raises UsageError."""
    from jumar.convert.model.options import Distributed

    if not words:
        return None
    if words[0] != "distributed":
        raise UsageError(
            f'"{words[0]}" is no option. Give the sources with -i; only "distributed" may stand at the end.'
        )
    read = distributed_command.main(list(words[1:]), prog_name="jumar convert … distributed", standalone_mode=False)
    if not isinstance(read, tuple):  # its --help
        raise click.exceptions.Exit(0)
    main, model = read
    if not all(part.isidentifier() for part in model.split(".")):
        raise UsageError(f'"-t {model}" must be the name of the variable that holds the model, such as -t model.')
    return Distributed(main=relative(main, source), model=model)


def relative(main: str, source: Path) -> str:
    """Return the entry script relative to the source root; it may be given so, or as a path of its own."""
    root = source if source.is_dir() else source.parent
    for path in (root / main, Path(main)):
        if path.is_file() and path.resolve().is_relative_to(root.resolve()):
            return path.resolve().relative_to(root.resolve()).as_posix()
    raise UsageError(f'"-m {main}" must be a script of {source}; there is none of that name. Give its path in there.')
