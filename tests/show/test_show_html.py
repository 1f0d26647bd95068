from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import pytest

from jumar.base.findings import Edit, Finding, Location, Severity
from jumar.show import render_html
from jumar.show.blocks.page import (
    Action,
    BarChart,
    Block,
    Column,
    Diff,
    FindingList,
    Heat,
    KeyValues,
    LineChart,
    Page,
    Section,
    Series,
    Table,
    Text,
    Verdict,
)
from jumar.show.blocks.pictures import Counts, Excerpt, Histogram, Outline, OutlineEntry, Question, Questions, Raster
from jumar.show.html.render import POLICY

Parse = Callable[[str], Any]
PageOf = Callable[..., Page]

EVIL = "</script ><script>alert(1)</script><img src=x onerror=alert(2)>\"' onload='alert(3)"


def test_a_page_with_every_block_has_balanced_tags_and_unique_ids(full_page: Page, document: Parse) -> None:
    parsed = document(render_html(full_page))
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert sorted(set(ids)) == sorted(ids)


def test_every_link_leads_to_an_element_of_the_page(full_page: Page, document: Parse) -> None:
    parsed = document(render_html(full_page))
    ids = {attributes["id"] for _, attributes in parsed.elements if "id" in attributes}
    links = {attributes["href"].removeprefix("#") for tag, attributes in parsed.elements if tag == "a"}
    assert links - ids == set()


def test_the_verdict_comes_first_then_the_actions_then_the_sections(full_page: Page, document: Parse) -> None:
    text = document(render_html(full_page)).text
    places = [text.index(part) for part in ("Failed", "The loss of train.py", "Look at the LayerNorm", "Loss per step")]
    assert places == sorted(places)


@pytest.mark.parametrize(("status", "word"), [("fine", "Fine"), ("attention", "Needs attention"), ("failed", "Failed")])
def test_the_status_is_a_word_and_a_shape_and_not_only_a_colour(status: Any, word: str, document: Parse) -> None:
    page = Page(title="t", verdict=Verdict(status=status, headline="h"), actions=(), sections=())
    parsed = document(render_html(page))
    assert word in parsed.text
    assert parsed.count("svg", "icon") == 1


def is_inside(value: str | None) -> bool:
    """Return whether a picture is in the page itself: base64 can hold anything, but it asks for nothing."""
    return re.fullmatch(r"data:image/png;base64,[A-Za-z0-9+/=]+", value or "") is not None


def test_nothing_is_loaded_from_outside(full_page: Page, document: Parse) -> None:
    html = render_html(full_page)
    parsed = document(html)
    loading = [
        (tag, name, value)
        for tag, attributes in parsed.elements
        for name, value in attributes.items()
        if (name in ("src", "srcset", "action", "data", "poster", "xlink:href") and not is_inside(value))
        or (name == "href" and not str(value).startswith("#"))
        or re.search(r"https?://|url\(", str(value))
    ]
    assert loading == []
    assert re.findall(r"https?:|//[a-z]|url\(|@import|@font-face|<link|<iframe|<object|fetch\(|XMLHttp", html) == []


def test_the_content_security_policy_forbids_every_request(full_page: Page, document: Parse) -> None:
    metas = [attributes for tag, attributes in document(render_html(full_page)).elements if tag == "meta"]
    policies = [meta["content"] for meta in metas if meta.get("http-equiv") == "Content-Security-Policy"]
    assert policies == [POLICY]
    assert POLICY.startswith("default-src 'none'")


def test_the_same_page_gives_the_same_bytes(full_page: Page) -> None:
    assert render_html(full_page) == render_html(full_page)


def evil_blocks() -> list[Block]:
    finding = Finding(
        code="JM101",
        severity=Severity.ERROR,
        message=EVIL,
        where=Location(path=EVIL, line=1, module_path=EVIL, operator=EVIL, phase=EVIL),
        evidence={EVIL: EVIL, "list": [EVIL], "table": [{EVIL: EVIL}], "nested": {EVIL: [EVIL]}},
        why=EVIL,
        action=f"`{EVIL}`",
        edit=Edit(path=EVIL, start_line=1, end_line=1, before=EVIL, after=EVIL + "x"),
    )
    return [
        FindingList(findings=[finding] * 30, titles={"JM101": EVIL}),
        FindingList(findings=[], empty=EVIL),
        Table(title=EVIL, columns=[Column(title=EVIL, unit=EVIL)], rows=[(EVIL,)] * 100, marked=[1]),
        LineChart(title=EVIL, x_label=EVIL, y_label=EVIL, series=[Series(name=EVIL, x=[0, 1], y=[math.nan, 1])]),
        BarChart(title=EVIL, unit=EVIL, bars=[(EVIL, 1.0)]),
        Text(text=f"{EVIL}\n\n`{EVIL}`"),
        Diff(text=f"--- a/{EVIL}\n+++ b/{EVIL}\n@@ -1 +1 @@\n-{EVIL}\n+{EVIL}x\n", title=EVIL),
        KeyValues(title=EVIL, items=[(EVIL, EVIL)]),
        Heat(title=EVIL, unit=EVIL, values=[(EVIL, 1.0), (f"a.{EVIL}", None)]),
        Outline(title=EVIL, unit=EVIL, entries=[OutlineEntry(name=EVIL, note=EVIL, marked=True)]),
        Histogram(title=EVIL, x_label=EVIL, edges=[0, 1], series=[Counts(name=EVIL, counts=[1])] * 2, note=EVIL),
        Questions(title=EVIL, questions=[Question(question=EVIL, answer=EVIL, evidence=EVIL)]),
        Excerpt(path=EVIL, first_line=1, lines=[EVIL], marked=[1], title=EVIL),
    ]


def test_markup_in_any_text_is_inert(document: Parse) -> None:
    page = Page(
        title=EVIL,
        verdict=Verdict(status="failed", headline=EVIL, details=(EVIL,)),
        actions=(Action(title=EVIL, detail=EVIL, command=EVIL),),
        sections=(Section(title=EVIL, blocks=evil_blocks()), Section(title=EVIL, blocks=(), collapsed=True)),
        footer=EVIL,
    )
    parsed = document(render_html(page))
    assert parsed.count("img") == 0
    assert [name for _, attributes in parsed.elements for name in attributes if name.startswith("on")] == []
    programs = [attributes for tag, attributes in parsed.elements if tag == "script" and "type" not in attributes]
    assert programs == [{}]
    assert "<script>alert(1)</script>" in parsed.text


def test_embedded_data_is_json_whatever_the_texts_hold(document: Parse, page_of: PageOf) -> None:
    rows = [(EVIL, math.nan), ("\u2028<!--", math.inf), ("]]>", None)]
    table = Table(columns=[Column(title="a"), Column(title="b", number=True)], rows=rows)
    html = render_html(page_of(table))
    parsed = document(html)
    data = json.loads(parsed.scripts[0])
    # A browser ends the script at `</script` and a space, which Python's parser does not.
    assert html.count("</script") == parsed.count("script")
    assert "<!--" not in html
    assert data["rows"] == [[EVIL, "NaN"], ["\u2028<!--", "Infinity"], ["]]>", None]]


def test_a_page_with_nothing_in_it_still_says_its_verdict(document: Parse) -> None:
    page = Page(title="", verdict=Verdict(status="fine", headline="All agrees."), actions=(), sections=())
    text = document(render_html(page)).text
    assert "All agrees." in text
    assert "What to do next" not in text


@pytest.mark.parametrize(
    "block",
    [
        FindingList(findings=()),
        Table(columns=(), rows=()),
        Table(columns=(Column(title="a"),), rows=()),
        LineChart(title="", x_label="", y_label="", series=()),
        LineChart(title="", x_label="", y_label="", series=(Series(name="", x=(), y=()),), log_y=True),
        BarChart(title="", unit="", bars=()),
        Text(text=""),
        Diff(text=""),
        KeyValues(items=()),
        Heat(title="", unit="", values=()),
        Outline(title="", unit="", entries=()),
        Histogram(title="", x_label="", edges=(), series=()),
        Raster(title="", unit="", values=(), rows="", columns=""),
        Questions(questions=()),
        Excerpt(path="", first_line=1, lines=()),
    ],
    ids=lambda block: type(block).__name__,
)
def test_an_empty_block_is_drawn_without_error(block: Block, document: Parse, page_of: PageOf) -> None:
    assert document(render_html(page_of(block))).count("section", "section") == 1


def test_names_in_any_language_are_kept(document: Parse, page_of: PageOf) -> None:
    names = ["模型/训练.py", "модель", "é̂", "🧗", "عربي"]
    table = Table(columns=[Column(title="名")], rows=[(name,) for name in names])
    text = document(render_html(page_of(table))).text
    assert [name for name in names if name not in text] == []


def test_a_file_name_that_is_not_utf8_can_be_written(page_of: PageOf) -> None:
    html = render_html(page_of(Text(text="caf\udce9.py")))
    assert "caf\\udce9.py" in html.encode("utf-8").decode("utf-8")


def test_braces_and_template_syntax_of_a_user_are_text(document: Parse, page_of: PageOf) -> None:
    text = document(render_html(page_of(Text(text="{{ 7 * 7 }} {% raw %} {# no #}")))).text
    assert "{{ 7 * 7 }} {% raw %} {# no #}" in text


def test_backquotes_become_code_and_a_lone_one_stays(document: Parse, page_of: PageOf) -> None:
    parsed = document(render_html(page_of(Text(text="use `npu` and ` here"))))
    assert "use npu and ` here" in parsed.text
    assert parsed.count("code") == 1


def test_a_table_of_ten_thousand_rows_shows_fifty_and_embeds_the_rest_compactly(
    document: Parse, page_of: PageOf
) -> None:
    columns = [Column(title="Operator", code=True), Column(title="Time", number=True, bar=True), Column(title="Phase")]
    rows = [(f"aten::operator_{index}", index * 1.25, "forward") for index in range(10_000)]
    html = render_html(page_of(Table(columns=columns, rows=rows)))
    empty = render_html(page_of(Table(columns=columns, rows=rows[:50])))
    parsed = document(html)
    assert parsed.count("tr") == 51
    assert len(json.loads(parsed.scripts[0])["rows"]) == 10_000
    assert (len(html) - len(empty)) / 9_950 < 60  # the row's own text is 42 bytes


def test_thousands_of_findings_of_one_rule_stay_a_small_page(page_of: PageOf, document: Parse) -> None:
    findings = [
        Finding(
            code="JM101",
            severity=Severity.INFO,
            message="A device string names cuda.",
            where=Location(path="train.py", line=line),
            edit=Edit(path="train.py", start_line=line, end_line=line, before="cuda\n", after="npu\n"),
        )
        for line in range(1, 5001)
    ]
    html = render_html(page_of(FindingList(findings=findings)))
    assert document(html).count("article", "finding") == 20
    assert len(html) < 600_000


def test_a_block_of_another_class_is_refused(page_of: PageOf) -> None:
    with pytest.raises(KeyError):
        render_html(page_of("text"))


def test_a_command_can_be_copied_as_it_is(document: Parse) -> None:
    command = 'jumar port "my script.py" -- --name "<a & b>"'
    page = Page(
        title="t",
        verdict=Verdict(status="fine", headline="h"),
        actions=(Action(title="Go", command=command),),
        sections=(),
    )
    copied = [
        attributes.get("data-copy") for tag, attributes in document(render_html(page)).elements if tag == "button"
    ]
    assert copied == [command]


def test_each_rule_says_how_to_have_it_explained(full_page: Page, document: Parse) -> None:
    text = document(render_html(full_page)).text
    assert [code for code in ("JM101", "JM204", "JM301") if f"jumar rule {code}" not in text] == []
