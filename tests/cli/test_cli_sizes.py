"""Every option that takes a size means the same by it, and says in its help what it means."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner

from jumar.base.text.sizes import SIZE_HELP
from jumar.capture.plans.budget import parse_budget
from jumar.cli.main import cli
from jumar.cli.options import Npu, npu_options

SIZES = [("16GB", 16 * 10**9), ("16G", 16 * 10**9), ("16GiB", 16 * 2**30), ("512 MiB", 2**29)]


def options(command: click.Command, path: str = "jumar") -> Iterator[tuple[str, click.Option]]:
    for parameter in command.params:
        if isinstance(parameter, click.Option) and "SIZE" in (parameter.metavar or ""):
            yield f"{path} {parameter.opts[0]}", parameter
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from options(below, f"{path} {name}")


def test_every_option_that_takes_a_size_says_what_gb_are() -> None:
    found = dict(options(cli))
    assert sorted(found) == [
        "jumar accuracy bisect --npu-memory",
        "jumar export onnx --external-above",
        "jumar overflow --npu-memory",
        "jumar profile --growth-limit",
        "jumar profile --npu-memory",
        "jumar record --budget",
        "jumar record --npu-memory",
        "jumar repro --max-size",
        "jumar run --npu-memory",
        "jumar tune --max-bucket",
        "jumar tune --min-bucket",
    ]
    assert [name for name, option in found.items() if SIZE_HELP not in (option.help or "")] == []


@pytest.mark.parametrize(("text", "size"), SIZES)
def test_a_device_and_a_recording_of_one_size_are_equal(text: str, size: int) -> None:
    seen: list[int | None] = []

    @click.command()
    @npu_options
    def command(*, npu: Npu, **_: Any) -> None:
        seen.append(npu.memory_bytes)

    result = CliRunner().invoke(command, ["--npu-memory", text])
    assert result.exit_code == 0
    assert (*seen, parse_budget(text)[0]) == (size, size)


@pytest.mark.parametrize(("text", "size"), SIZES)
def test_a_case_of_one_size_is_cut_there(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def write_repro(*_: Any, **keywords: Any) -> None:
        given.update(keywords)
        raise KeyboardInterrupt

    import jumar.comparison.repro

    monkeypatch.setattr(jumar.comparison.repro, "write_repro", write_repro)
    CliRunner().invoke(cli, ["repro", "recording", "first", "-o", "case", "--max-size", text])
    assert given["max_bytes"] == size
