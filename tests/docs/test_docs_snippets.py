"""The pages tell the truth: their Python runs, their commands have the options they show, their links lead somewhere.

A fenced block of Python runs unless more than `python` stands behind its fence (`python no-run`). A block with
`file=NAME` is written to that file before the page runs, which is how a page shows a configuration it uses.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from jumar.capture.process.program import is_starter
from jumar.cli.main import cli

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DATA = ROOT / "src" / "jumar" / "soc" / "data"
EMULATOR_PAGES = [*sorted(DOCS.glob("emulator*.md")), DOCS / "guide-testing.md"]
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), DATA / "README.md"]
OVERVIEW = DOCS / "emulator.md"
COMMAND = re.compile(r"^(?:[A-Z_]+=\S+\s+)*(jumar|pytest|python3?|torchrun)\s")
SEPARATORS = re.compile(r"\s*(?:&&|;|\|)\s*")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: what stands behind the fence, its text, and the line of the page its text starts in."""

    info: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    info, line, inside = "", 0, []
    for number, text in enumerate(page.read_text("utf-8").splitlines(), 1):
        if not text.startswith("```"):
            inside.append(text)
        elif line:
            yield Block(info, "\n".join(inside), line)
            line = 0
        else:
            info, line, inside = text[3:].strip(), number + 1, []
    assert line == 0, f"{page}: the block in line {line} has no end"


def program(page: Path) -> str:
    """Return the Python blocks of a page as one program whose line numbers are those of the page."""
    lines: list[str] = []
    for block in blocks(page):
        if block.info == "python":
            lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    return "\n".join(lines) + "\n"


def names(pages: list[Path]) -> list[str]:
    return [page.name for page in pages]


RUNNABLE = [page for page in [*EMULATOR_PAGES, DOCS / "guide-convert.md"] if page.is_file() and program(page).strip()]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNABLE, ids=names(RUNNABLE))
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    code = program(page)
    is_suite = re.search(r"^def test_", code, re.MULTILINE) is not None
    script = tmp_path / f"test_{page.stem.replace('-', '_')}.py"
    script.write_text(code, "utf-8")
    for block in blocks(page):
        if name := re.search(r"\bfile=(\S+)", block.info):
            (tmp_path / name[1]).write_text(block.text, "utf-8")
    start = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--device", "npu"] if is_suite else ["-c", LAUNCH, "run"]
    end = subprocess.run(
        [sys.executable, *start, script.name], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
    )
    assert end.returncode == 0, f"{page.name}, line numbers are those of the page\n{end.stdout}{end.stderr}"


LAUNCH = "import sys; from jumar.cli.main import main; sys.exit(main(sys.argv[1:]))"


def shell_lines(page: Path) -> list[str]:
    """Return the commands of a page: lines of blocks that are not of another language, and inline code."""
    text = page.read_text("utf-8")
    fenced = [line for block in blocks(page) if block.info in ("", "bash", "sh") for line in block.text.splitlines()]
    indented = re.findall(r"^ {4}(\S.*)$", text, re.MULTILINE)
    inline = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)
    bare = [
        re.split(r"\s{2,}", line.strip())[0] for line in (*fenced, *indented, *inline)
    ]  # what stands behind explains
    parts = [part for line in bare for part in SEPARATORS.split(line)]
    return [part for part in parts if COMMAND.match(part)]


def complaint(line: str) -> str:
    """Return what is wrong with a command line, or nothing."""
    words = shlex.split(line, comments=True)
    while "=" in words[0]:
        words.pop(0)
    program, arguments = words[0], words[1:]
    if program == "jumar":
        return wrong_command(arguments)
    if program.startswith("python"):
        own = [word for word in arguments[:1] if word.startswith(("scripts/", "benchmarks/", "examples/"))]
        return "".join(f"{word} is not there" for word in own if not (ROOT / word).exists())
    return ""


def wrong_command(arguments: list[str]) -> str:
    """Return what is wrong with the command or options behind `jumar`, as click finds it."""
    command: click.Command = cli
    context = click.Context(cli, info_name="jumar")
    while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        found = command.get_command(context, arguments[0])
        if found is None:
            return f"there is no command {arguments[0]}"
        command, arguments = found, arguments[1:]
        settings = command.context_settings | {"ignore_unknown_options": False}
        context = click.Context(command, parent=context, info_name=command.name, **settings)
    if any("…" in word or "..." in word for word in arguments):
        return ""
    if any(parameter.name == "script" for parameter in command.params):  # a launcher has all words after it
        starts = [at for at, word in enumerate(arguments) if word == "-m" or is_starter(word)]
        arguments = [*arguments[: starts[0]], "train.py"] if starts else arguments
    try:
        given, _, _ = command.make_parser(context).parse_args(list(arguments))
        for parameter in command.params:
            if isinstance(parameter.type, click.Choice) and isinstance(given.get(parameter.name or ""), str):
                parameter.type.convert(given[parameter.name or ""], parameter, context)
    except (click.NoSuchOption, click.BadParameter) as error:
        return error.format_message()
    except click.UsageError:  # an option named alone in a sentence: `jumar run --soc`
        return ""
    return ""


COMMANDS = sorted({(page.name, line) for page in PAGES for line in shell_lines(page)})


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_a_command_has_the_options_that_a_page_shows(page: str, line: str) -> None:
    assert complaint(line) == ""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("jumar rum train.py", "there is no command rum"),
        ("jumar run --num-devices 2 train.py", "No such option"),
        ("jumar run --numerics exakt train.py", "exakt"),
        ("python scripts/nothing.py", "is not there"),
        ("jumar run train.py --anything", ""),
        ("jumar run --num-devices 2 torchrun --standalone train.py", "No such option"),
        ("jumar run torchrun --standalone train.py", ""),
    ],
)
def test_a_wrong_command_would_be_found(line: str, said: str) -> None:
    assert (said in complaint(line)) if said else complaint(line) == ""


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


LINKS = sorted(
    {
        (page.relative_to(ROOT).as_posix(), target)
        for page in PAGES
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
        if not target.startswith(("http://", "https://", "mailto:"))
    }
)


@pytest.mark.parametrize(("page", "target"), LINKS)
def test_a_link_leads_somewhere(page: str, target: str) -> None:
    path, _, anchor = target.partition("#")
    there = (ROOT / page).parent / path if path else ROOT / page
    assert there.exists()
    assert not anchor or anchor in anchors(there)


def test_the_overview_names_every_page_of_the_emulator() -> None:
    linked = {target for page, target in LINKS if page == "docs/emulator.md"}
    assert {page.name for page in EMULATOR_PAGES} - {OVERVIEW.name} <= linked


def test_every_page_of_the_emulator_leads_back_to_the_overview() -> None:
    linking = {page for page, target in LINKS if target.partition("#")[0] == OVERVIEW.name}
    assert {page.relative_to(ROOT).as_posix() for page in EMULATOR_PAGES} - {"docs/emulator.md"} <= linking


def test_the_page_of_the_tables_names_every_table() -> None:
    rows = re.findall(r"^\| `(\S+\.json)` \|", (DATA / "README.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(path.name for path in DATA.glob("*.json"))


@pytest.mark.slow
def test_the_list_of_custom_operators_is_that_of_the_emulator() -> None:
    script = ROOT / "scripts" / "list_custom_operators.py"
    end = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert end.returncode == 0, f"run python scripts/list_custom_operators.py\n{end.stderr}"
