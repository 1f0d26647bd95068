"""The vendor's spelling of options: `jumar tune --job_type=2 --model_path=…` as the documents write `aoe`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from jumar.cli.main import Command

_MODEL = frozenset({"model", "m"})
_SAME: Mapping[str, str] = {"tune_optimization_level=O1": "--deeper"}
"""Options with a value -> what means the same here."""
_SHORT: Mapping[str, str] = {"-j": "job_type", "-m": "model", "-f": "framework", "-w": "weight"}


class AoeCommand(Command):
    """Takes the options of `aoe`, with underscores too. Those without an effect here are told once on stderr."""

    def make_parser(self, ctx: click.Context) -> Any:
        """Return click's parser, which reads the words in the command's own spelling."""
        parser = super().make_parser(ctx)
        read, known = parser.parse_args, self._names()
        parser.parse_args = lambda args: read(translated(args, known)[0])  # type: ignore[method-assign]
        return parser

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of the command line. Raises click.UsageError as click does."""
        rest = super().parse_args(ctx, list(args))
        _, dropped = translated(args, self._names())
        if dropped and not ctx.resilient_parsing:
            click.echo(f"jumar: without effect here, options of aoe: {', '.join(dropped)}.", err=True)
        return rest

    def _names(self) -> frozenset[str]:
        return frozenset(name for one in self.params for name in (*one.opts, *one.secondary_opts))


def translated(args: Sequence[str], known: frozenset[str]) -> tuple[list[str], list[str]]:
    """Return a command line in `jumar tune`'s own options, and the vendor's options that have none here, each once.

    `known` are the command's own options (`--job-type`), which stay as they are. What follows `--` belongs to a script.
    """
    devices = [word for word in args if word.partition("=")[0] == "--device"]
    words: list[str] = []
    dropped: list[str] = []
    end = args.index("--") if "--" in args else len(args)
    at = 0
    while at < end:
        word = args[at]
        at += 1
        name, equals, value = word.partition("=")
        vendor = _SHORT.get(name, name[2:] if name.startswith("--") else "")
        following = value if equals else _next(args, at, end)
        # A number is the vendor's device; an option that is given twice is a mistake, which the command itself tells.
        is_number = name == "--device" and following.isdigit() and len(devices) == 1
        if not vendor or (name in known and not is_number):
            words.append(word)
            continue
        own = f"--{vendor.replace('_', '-')}"
        if own in known and vendor != "device":
            words.append(f"{own}={value}" if equals else own)
            continue
        if not _is_vendors(vendor):
            words.append(word)
            continue
        if not equals and at < end and not args[at].startswith("-"):
            value, at = args[at], at + 1
        if vendor in _MODEL:
            words.append(value)
        elif f"{vendor}={value}" in _SAME:
            words.append(_SAME[f"{vendor}={value}"])
        elif f"--{vendor}" not in dropped:
            dropped.append(f"--{vendor}")
    return [*words, *args[end:]], dropped


def _next(args: Sequence[str], at: int, end: int) -> str:
    return args[at] if at < end else ""


def _is_vendors(name: str) -> bool:
    from jumar.tfadapter.options import options_of, others_of_the_tuner

    also = _MODEL | {"device", "tune_optimization_level"}
    return name in also or name in options_of("command") or name in others_of_the_tuner()
