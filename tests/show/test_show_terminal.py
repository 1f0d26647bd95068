from __future__ import annotations

import io
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from jumar.base.findings import Finding, Location, Severity
from jumar.show import print_findings, print_page
from jumar.show.blocks.page import Action, Page, Section, Table, Verdict
from jumar.show.blocks.page import Column as PageColumn
from jumar.show.terminal.length import whole_pages

COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def terminal(width: int = 80, **options: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=width, highlight=False, **options)


def pipe() -> Console:
    return Console(file=io.StringIO(), force_terminal=False, width=80)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def many_findings(count: int = 60) -> list[Finding]:
    return [
        Finding(
            code=f"JM{100 + index}",
            severity=(Severity.ERROR, Severity.WARNING, Severity.ADVICE)[index % 3],
            message="A message that says what is wrong at this place and with which numbers, at some length.",
            where=Location(path="a/rather/long/path/of/a/training/script.py", line=index + 1),
            action="Do something about it.",
        )
        for index in range(count)
    ]


def test_findings_in_a_pipe_are_whole_plain_lines(findings: list[Finding]) -> None:
    console = pipe()
    print_findings(findings, console=console, title="jumar assess")
    assert printed(console) == (
        "jumar assess: 1 error, 1 warning, 2 info\n"
        "  error   JM301  `aten::native_layer_norm` differs.\n"
        "                 blocks.2.ln aten::native_layer_norm forward step 0\n"
        "                 → Compare the `eps`.\n"
        "  warning JM204  Runs on the host.\n"
        "  info    JM101  A device string names `cuda`.\n"
        "                 train.py:41, train.py:77\n"
        "                 → Nothing to do.\n"
    )


def test_nothing_found_is_said() -> None:
    console = pipe()
    print_findings([], console=console)
    assert printed(console) == "nothing found\n"


@pytest.mark.parametrize("width", [80, 100, 120])
def test_many_findings_take_one_screen_and_the_rest_is_counted(width: int) -> None:
    console = terminal(width)
    print_findings(many_findings(), console=console)
    lines = COLOURS.sub("", printed(console)).splitlines()
    shown = sum("JM" in line for line in lines)
    assert len(lines) <= 35
    assert f"({60 - shown} more rules)" in " ".join(" ".join(lines).split())
    assert "--verbose prints all of it" in " ".join(" ".join(lines).split())


@pytest.mark.parametrize("width", [80, 120])
def test_a_page_takes_one_screen(full_page: Page, width: int) -> None:
    console = terminal(width)
    rows = [("aten::add.Tensor", float(index)) for index in range(500)]
    columns = (PageColumn(title="Operator"), PageColumn(title="Time", number=True))
    table = Section(title="Rows", blocks=(Table(columns=columns, rows=rows),))
    print_page(replace(full_page, sections=(*full_page.sections, table)), console=console)
    lines = COLOURS.sub("", printed(console)).splitlines()
    assert len(lines) <= 35
    assert max(cell_len(line) for line in lines) <= width


def test_a_page_answers_first_then_says_what_to_do_then_shows_the_findings(full_page: Page) -> None:
    console = pipe()
    print_page(full_page, console=console)
    text = printed(console)
    parts = ["✗ Failed: The loss of `train.py` diverges.", "What to do next", "  jumar compare a b\n", "error   JM301"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


def test_what_a_page_does_not_show_is_named_with_its_size(full_page: Page) -> None:
    rows = [(index,) for index in range(1000)]
    big = Section(title="Rows", blocks=(Table(columns=(PageColumn(title="n"),), rows=rows),), collapsed=True)
    console = pipe()
    print_page(replace(full_page, sections=(big,)), console=console, more="See index.html.")
    assert "Not shown: Rows (1,000 rows). See index.html." in printed(console)


def test_many_actions_are_cut_and_counted(full_page: Page) -> None:
    actions = [Action(title=f"Step {index}", detail="d", command="c") for index in range(12)]
    console = pipe()
    print_page(replace(full_page, actions=actions, sections=()), console=console)
    assert "… and 8 more" in printed(console)


def test_a_path_is_never_broken_or_cut() -> None:
    path = "/" + "/".join(["folder"] * 30) + "/train.py"
    finding = Finding(code="JM101", severity=Severity.INFO, message="m", where=Location(path=path, line=3))
    for console in (terminal(80), pipe()):
        print_findings([finding], console=console)
        assert f"{path}:3" in printed(console)


def test_a_terminal_has_colours_and_a_pipe_has_none(full_page: Page) -> None:
    coloured, plain = terminal(), pipe()
    print_page(full_page, console=coloured)
    print_page(full_page, console=plain)
    assert "\x1b[1;31m" in printed(coloured)
    assert "\x1b" not in printed(plain)


def test_no_color_keeps_the_words_and_drops_the_colours(monkeypatch: pytest.MonkeyPatch, full_page: Page) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    console = terminal()
    print_page(full_page, console=console)
    codes = {code for match in re.findall(r"\x1b\[([0-9;]*)m", printed(console)) for code in match.split(";")}
    assert codes & {str(colour) for colour in (*range(30, 38), *range(90, 98))} == set()
    assert "Failed" in printed(console)


def test_escape_sequences_in_names_do_not_reach_the_terminal() -> None:
    finding = Finding(
        code="JM101",
        severity=Severity.ERROR,
        message="a\x1b]0;title\x07b\x1b[2Jc\u202egnp.exe",
        where=Location(path="x\x1b[31m.py\r\n", line=1),
    )
    console = pipe()
    print_findings([finding], console=console)
    assert re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", printed(console)) == []


def test_rich_markup_in_a_message_is_text() -> None:
    console = terminal()
    print_findings([Finding(code="JM101", severity=Severity.INFO, message="[red]x[/] :smile:")], console=console)
    assert "[red]x[/] :smile:" in printed(console)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_any_encoding_of_stdout_can_be_printed_to(encoding: str, full_page: Page) -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    page = replace(full_page, verdict=Verdict(status="fine", headline="模型 \udce9 µ"))
    print_page(page, console=Console(file=file, force_terminal=False))
    file.flush()
    assert b"\\udce9" in raw.getvalue()


@pytest.mark.parametrize("width", [1, 10, 40])
def test_a_narrow_terminal_is_no_error(width: int, full_page: Page) -> None:
    console = terminal(width)
    print_page(full_page, console=console)
    assert "diverges" in printed(console)


def test_an_empty_page_prints_its_verdict() -> None:
    console = pipe()
    print_page(
        Page(title="", verdict=Verdict(status="fine", headline="All agrees."), actions=(), sections=()), console=console
    )
    assert printed(console) == "  ✓ Fine: All agrees.\n"


def test_the_report_imports_no_torch_and_no_room() -> None:
    program = (
        "import sys, jumar.show; "
        "rooms = {'recording', 'device', 'capture', 'migrate', 'assess', 'accuracy', 'performance', 'port', 'cli'}; "
        "print(sorted(name for name in sys.modules "
        "if name == 'torch' or (name.startswith('jumar.') and name.split('.')[1] in rooms)))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_a_whole_page_shows_every_section_row_and_action(full_page: Page) -> None:
    actions = [Action(title=f"Step {index}", detail="d", command="c") for index in range(12)]
    rows = [(index,) for index in range(100, 300)]
    big = Section(title="Rows", blocks=(Table(columns=(PageColumn(title="n"),), rows=rows),), collapsed=True)
    console = pipe()
    token = whole_pages.set(True)
    try:
        print_page(replace(full_page, actions=actions, sections=(*full_page.sections, big)), console=console)
    finally:
        whole_pages.reset(token)
    text = printed(console)
    assert "Not shown" not in text
    assert all(f"  {index}" in text for index in range(100, 300))
    assert "Step 11" in text
