"""The English pages and their Chinese ones, taken apart: kinds of text, code, names, links, figures, words.

Run as a program, this file writes the measured tables of the English pages into the Chinese ones.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDES = ("port", "compare", "record", "convert", "overflow", "profile", "advise", "tune", "doctor")
TRANSLATED = {
    "README.md": "README.zh-CN.md",
    "docs/README.md": "docs/zh/README.md",
    "docs/emulator.md": "docs/zh/emulator.md",
    **{f"docs/guide-{name}.md": f"docs/zh/guide-{name}.md" for name in GUIDES},
}
"""English page -> Chinese page."""
HERE = [page for page, own in TRANSLATED.items() if (ROOT / own).is_file()]
"""English pages that have a Chinese one."""
GLOSSARY = ROOT / "docs" / "zh" / "glossary.md"
DRAWN = ("do the recordings share",)
"""First words of fenced blocks that are prose: a decision flow."""

HAN = "\u4e00-\u9fff"
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
MEASURED = re.compile(r"<!-- measured.*?<!-- end of measured -->", re.DOTALL)
ANCHOR = re.compile(r'^<a id="([\w-]+)"></a>\n', re.MULTILINE)
COMMAND = re.compile(r"\s*(?:[A-Z_]+=\S+ )*(?:jumar|python3?|pytest|torchrun|pip|export|dmesg|bash)\s")


def english(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def chinese(page: str) -> str:
    """Return the Chinese page of an English one, without its second line, which leads to the English one."""
    text = (ROOT / TRANSLATED[page]).read_text("utf-8")
    back = LINK.search(text)
    assert back is not None
    return text.replace(f"{back[0]}\n\n", "", 1).replace(f"{back[0]} · ", "", 1)


def prose(text: str) -> str:
    return FENCE.sub("", text)


def kinds(text: str) -> list[str]:
    """Return what a page consists of, in order: headings with levels, paragraphs, items, rows with cells, code."""
    found: list[str] = []
    in_text = False
    for line in FENCE.sub("```", ANCHOR.sub("", text)).splitlines():
        kind = _kind(line)
        if kind == "text" and in_text:
            continue
        if kind:
            found.append(kind)
        in_text = kind in ("text", "item")
    return found


def _kind(line: str) -> str:
    if line.startswith("#"):
        return line.split(" ", maxsplit=1)[0]
    if line.startswith("|"):
        return f"row of {SPAN.sub('', line).count('|') - 1}"
    if line.startswith("```"):
        return "code"
    if re.match(r"\s*(?:[-*]|\d+\.) ", line):
        return "item"
    return "text" if line.strip() else ""


def blocks(text: str) -> list[list[str]]:
    return [block.splitlines() for block in FENCE.findall(text)]


def stem(line: str) -> str:
    """Return a line of code without its comment, and a command without what stands behind it as an explanation."""
    if len(line) - len(line.lstrip()) >= 20:  # the explanation goes on
        return ""
    line = re.split(r"(?:^|\s)#\s|(?<=\S)\s*← ", line)[0].rstrip()
    return re.split(r"(?<=\S)\s{2,}", line)[0] if COMMAND.match(line) else line


def is_same_code(english: str, chinese: str) -> bool:
    return english == chinese or (stem(english) == stem(chinese) and re.search(f"[{HAN}]", chinese) is not None)


def places(page: str, text: str) -> list[str]:
    """Return where the links and images of a page lead, from the root, as the Chinese page must have them."""
    found = []
    for _, _, target in LINK.findall(SPAN.sub("", prose(text))):
        path, mark, anchor = target.partition("#")
        if "://" in target:
            found.append(target)
            continue
        there = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
        found.append(f"{TRANSLATED.get(there, there)}{mark}{anchor}")
    return sorted(found)


def counted(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w.])\d+(?:[.,]\d+)*", LINK.sub(r"\2", prose(text))))


def anchors(text: str) -> set[str]:
    """Return the anchors of a page: those it names, and those of its headings as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(ANCHOR.findall(text))


def bare(text: str) -> str:
    """Return the text that a person reads: names in code are one letter, marks and targets are gone."""
    text = MEASURED.sub("", prose(ANCHOR.sub("", text)))
    text = LINK.sub(lambda match: match[2], text)
    return SPAN.sub("x", text).replace("**", "")


def text_with_stars(page: Path) -> str:
    return SPAN.sub("x", prose(page.read_text("utf-8")))


def words() -> list[tuple[str, str, str]]:
    """Return the rows of the glossary: the English word, the Chinese one, and those that are not to be used."""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]*)\|$", GLOSSARY.read_text("utf-8"), re.MULTILINE)
    return [(one.strip(), own.strip(), other.strip()) for one, own, other in rows[1:] if not one.startswith("-")]


SAID = (
    (r"Medians in ms on (.+?), torch (\S+), (\S+) to (\S+), (.+?) of tuning a row\.",
     r"\1，torch \2，\3 至 \4，每行调优 \5；数值为中位数，单位 ms。"),
    (r"model:batch:threads", "模型：batch：线程数"),
    (r"best other / Jumar's file", "最佳对手 / Jumar 文件"),
    (r"best other / Jumar", "最佳对手 / Jumar"),
    (r"Jumar's file", "Jumar 文件"),
    (r"\((\S+) to (\S+)\)", r"(\1 ~ \2)"),
    (r"measured while other programs used the machine", "测量时有其他程序占用本机"),
    (r"inference at the model's precision", "按模型原精度推理"),
    (r"training steps", "训练 step"),
    (r"with an error budget", "给定误差预算"),
    (r": (\d+) rows, (.+?) (\S+) in the geometric mean, (\S+) at worst", r"：\1 行，\2 几何平均 \3，最差 \4"),
)  # fmt: skip
"""What `benchmarks/tune.py` writes, and the same in Chinese."""


def measured(text: str) -> list[str]:
    """Return the measured parts of an English page in Chinese."""
    parts: list[str] = MEASURED.findall(text)
    for pattern, said in SAID:
        parts = [re.sub(pattern, said, part) for part in parts]
    return parts


def main() -> None:
    """Write the measured parts into the Chinese pages."""
    for page in HERE:
        path = ROOT / TRANSLATED[page]
        text = path.read_text("utf-8")
        for old, new in zip(MEASURED.findall(text), measured(english(page)), strict=True):
            text = text.replace(old, new)
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
