"""Pages and lines in Chinese: frames are translated, columns aligned, narrow terminals work, JSON stays English."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from rich.cells import cell_len
from rich.console import Console

from jumar.base.findings import Finding, Location, Severity
from jumar.base.text.language import in_language
from jumar.show import findings_document, json_text, page_json, print_findings, print_page, render_html
from jumar.show.blocks.page import Action, Column, FindingList, KeyValues, Page, Section, Table, Verdict
from jumar.show.terminal.tell import pieces, tell, told_lines, wrapped_lines

CHINESE = re.compile(r"[\u4e00-\u9fff]")


@pytest.fixture(autouse=True)
def chinese() -> Iterator[None]:
    with in_language("zh"):
        yield


def printed(page: Page, *, width: int = 80, terminal: bool = True) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=width, highlight=False, color_system=None)
    print_page(page, console=console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture
def port_page() -> Page:
    """The page of a port as `jumar port` prints it: its frames, a table, a finding of a rule."""
    headline = (
        "train.py trains on the NPU as on the reference: 2 steps and 1 loss compared, 3,829 of 4,919 operator calls "
        "ran on the NPU, every compared operator within tolerance."
    )
    finding = Finding(
        code="JM112",
        severity=Severity.WARNING,
        message="`torch.load` without map_location cannot open a checkpoint saved on CUDA.",
        where=Location(path="train.py", line=129),
        action="Pass map_location='cpu'.",
    )
    return Page(
        title="Port of train.py",
        verdict=Verdict(status="fine", headline=headline, details=("Devices: cuda against npu (emulated).",)),
        actions=(Action(title="Take the conversion over", command="git apply changes.patch"),),
        sections=(
            Section(
                title="Operators",
                blocks=(
                    Table(
                        columns=(
                            Column(title="Operator", code=True),
                            Column(title="calls", unit="a step", number=True),
                            Column(title="Host time", unit="%", number=True),
                            Column(title="Why not"),
                        ),
                        rows=(
                            ("aten::mm", 27, 28.4, "the timeline has no communication between ranks."),
                            ("aten::native_layer_norm", 7, 7.2, "at least"),
                        ),
                    ),
                    KeyValues(items=(("Driver and firmware", "none"), ("CANN", "not found"), ("Cores", 2))),
                ),
            ),
            Section(title="Findings", blocks=(FindingList(findings=[finding]),)),
        ),
    )


def test_every_frame_of_a_page_is_chinese_and_names_stay(port_page: Page) -> None:
    text = printed(port_page, width=200)
    assert "✓ 正常：train.py 在 NPU 上的训练与基准一致：比对了 2 个 step 和 1 个 loss" in text
    assert "4,919 次算子调用中有 3,829 次在 NPU 上运行" in text
    assert "设备：cuda 对 npu（仿真）。" in text
    assert "下一步" in text
    assert "采用转换结果" in text
    assert "git apply changes.patch" in text
    assert "torch.load 没有 map_location，不能打开在 CUDA 上保存的 checkpoint。" in text
    assert "→ 传入 map_location='cpu'。" in text
    assert re.findall(r"\b(?:the|is|of|and|what|not)\b", text) == []


def test_titles_in_chinese_stand_over_their_columns(port_page: Page) -> None:
    lines = printed(port_page, width=200).splitlines()
    at = next(number for number, line in enumerate(lines) if "调用次数" in line)
    title, first, second = lines[at : at + 3]

    def column(line: str, part: str) -> int:
        return cell_len(line[: line.index(part)])

    assert column(title, "未采用的原因") == column(first, "时间线中没有") == column(second, "at least")
    assert column(title, "(每个 step)") + cell_len("(每个 step)") == column(first, "27") + 2 == column(second, "7 ") + 1


def test_names_of_values_are_padded_by_their_width_on_the_screen(port_page: Page) -> None:
    lines = [
        line for line in printed(port_page, width=200).splitlines() if line.startswith(("  驱动", "  CANN", "  核数"))
    ]
    values = ("none", "未找到", "2")
    assert len({cell_len(line[: line.index(value)]) for line, value in zip(lines, values, strict=True)}) == 1


@pytest.mark.parametrize("width", [38, 48, 60, 80])
def test_a_narrow_terminal_breaks_chinese_between_characters(port_page: Page, width: int) -> None:
    for line in printed(port_page, width=width).splitlines():
        words = [piece for piece in pieces(line) if CHINESE.search(piece)]
        assert cell_len(line.rstrip()) <= width or len(words) <= 1, line
        assert not line.lstrip().startswith(("，", "。", "：", "；", "）")), line


def test_a_page_in_chinese_says_so_and_lets_names_be(port_page: Page) -> None:
    text = render_html(port_page)
    assert '<html lang="zh-CN"' in text
    assert "在 NPU 上的训练与基准一致" in text
    assert "aten::native_layer_norm" in text
    with in_language("en"):
        assert '<html lang="en"' in render_html(port_page)


def test_documents_are_the_same_in_every_language(port_page: Page, findings: list[Finding], full_page: Page) -> None:
    told = [json_text(findings_document(findings)), json_text(page_json(port_page)), json_text(page_json(full_page))]
    with in_language("en"):
        assert told == [
            json_text(findings_document(findings)),
            json_text(page_json(port_page)),
            json_text(page_json(full_page)),
        ]
    assert CHINESE.search("".join(told)) is None


def test_a_page_with_every_block_is_printed_in_chinese(full_page: Page) -> None:
    text = printed(full_page, width=100)
    assert "✗ 失败：" in text
    assert "发现的问题" in text
    assert "aten::native_layer_norm" in text
    assert CHINESE.search(render_html(full_page)) is not None


def test_findings_are_counted_in_chinese(findings: list[Finding]) -> None:
    console = Console(file=io.StringIO(), force_terminal=False, width=80)
    print_findings(findings, console=console, title="Left for you")
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().startswith("留给您处理：1 个 error, 1 个 warning, 2 条 info\n")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("  losses     step 0: 5.06 / 5.06", "  loss       step 0: 5.06 / 5.06"),
        ("  index.html                     everything, to read", "  index.html                     全部内容，供阅读"),
        ("jumar: next, tune its operators: jumar tune out", "jumar: 下一步，调优它的算子：jumar tune out"),
        ("Wrote page.html.", "已写入 page.html。"),
        ("    jumar record -o good train.py", "    jumar record -o good train.py"),
        ("", ""),
    ],
)
def test_a_line_keeps_its_indent_its_label_and_its_command(line: str, told: str) -> None:
    assert told_lines(line) == told


def test_lines_are_printed_as_they_are_in_english(capsys: pytest.CaptureFixture[str]) -> None:
    tell("Wrote page.html.")
    with in_language("en"):
        tell("Wrote page.html.")
    assert capsys.readouterr().out == "已写入 page.html。\nWrote page.html.\n"


def test_a_wrapped_line_ends_within_its_width_and_loses_nothing() -> None:
    text = "The runs diverge first at aten::gelu in blocks.1.act (GELU), forward of step 0, train.py:19."
    lines = wrapped_lines(text, 40, "  ")
    assert max(map(cell_len, lines)) <= 40
    assert "".join(line[2:] for line in lines).replace(" ", "") == told_lines(text).replace(" ", "")


def test_the_help_is_chinese_and_the_document_of_a_command_is_not() -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "jumar", *words], capture_output=True, text=True, check=False)

    shown = run("advise", "--help").stdout
    assert shown.startswith("用法：jumar advise [OPTIONS]")
    assert "选项" in shown
    wrong = run("advise", "--nosuch", "x")
    assert wrong.returncode == 2
    assert "错误：没有选项 '--nosuch'" in wrong.stderr
    document = run("rule", "JM112", "--json").stdout
    assert CHINESE.search(document) is None
    assert json.loads(document)["code"] == "JM112"
