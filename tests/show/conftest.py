"""A page with every block, and a parser that holds an HTML document to balanced tags."""

from __future__ import annotations

import math
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from jumar.base.findings import Edit, Finding, Location, Severity
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
    Listing,
    Page,
    Section,
    Series,
    Table,
    Text,
    Verdict,
)
from jumar.show.blocks.pictures import Counts, Excerpt, Histogram, Outline, OutlineEntry, Question, Questions, Raster
from jumar.show.blocks.profiles import Dot, Flame, FlameNode, Roofline, StackedBars, Trace

VOID = {"meta", "input", "br", "link", "img"}
FOREIGN_VOID = {"path", "circle"}

PATCH = """\
diff --git a/train.py b/train.py
--- a/train.py
+++ b/train.py
@@ -1,3 +1,4 @@
 import torch
-device = torch.device("cuda")
--- a comment that a query would begin with
+import torch_npu
+device = torch.device("npu")
+-- a comment that a query would begin with
"""


class Document(HTMLParser):
    """What a test wants to know of a page; raises AssertionError where tags do not balance."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in FOREIGN_VOID, f"<{tag}/> is no void element"
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open and self.open[-1] == "script" else self.texts).append(data)

    @property
    def text(self) -> str:
        """All text a reader can see, with single spaces."""
        return " ".join("".join(self.texts).split())

    def count(self, tag: str, css: str = "") -> int:
        """Return how many elements `tag` have the class `css`."""
        return sum(
            name == tag and (not css or css in (attributes.get("class") or "").split())
            for name, attributes in self.elements
        )


@pytest.fixture
def document() -> Callable[[str], Document]:
    return Document


@pytest.fixture
def page_of() -> Callable[..., Page]:
    """Return a function that makes a page of one section with the blocks it is given."""

    def make(*blocks: Block) -> Page:
        return Page(
            title="t",
            verdict=Verdict(status="fine", headline="h"),
            actions=(),
            sections=(Section(title="s", blocks=blocks),),
        )

    return make


@pytest.fixture
def findings() -> list[Finding]:
    """Four findings of three rules, with every field in use."""
    edit = Edit(
        path="train.py", start_line=41, end_line=41, before="x.to('cuda:0')\n", after="x.to('npu:0')\n", safety="safe"
    )
    places = [Location(path="train.py", line=line, column=5) for line in (41, 77)]
    return [
        *(
            Finding(
                code="JM101",
                severity=Severity.INFO,
                message="A device string names `cuda`.",
                where=place,
                why="An NPU is called npu.",
                action="Nothing to do.",
                edit=edit,
            )
            for place in places
        ),
        Finding(
            code="JM301",
            severity=Severity.ERROR,
            message="`aten::native_layer_norm` differs.",
            where=Location(module_path="blocks.2.ln", operator="aten::native_layer_norm", phase="forward", step=0),
            evidence={
                "max_abs_diff": 0.0032134567,
                "duration_us": 12.5,
                "index": [3, 17],
                "loss": math.nan,
                "outputs": [{"name": "output.0", "cosine": 0.99}, {"name": "output.1", "cosine": 1.0}],
            },
            why="All that follows inherits it.",
            action="Compare the `eps`.",
        ),
        Finding(code="JM204", severity=Severity.WARNING, message="Runs on the host.", confidence="likely"),
    ]


@pytest.fixture
def full_page(findings: list[Finding]) -> Page:
    """A page with every block, collapsed and open sections, NaN, Inf and None."""
    steps = [0.0, 1.0, 2.0, 3.0]
    return Page(
        title="jumar port train.py",
        verdict=Verdict(status="failed", headline="The loss of `train.py` diverges.", details=("3 of 4 steps agree.",)),
        actions=(
            Action(title="Look at the LayerNorm", detail="In `blocks.2.ln`.", command="jumar compare a b"),
            Action(title="Apply the patch"),
        ),
        sections=(
            Section(
                title="Loss",
                blocks=(
                    LineChart(
                        title="Loss per step",
                        x_label="step",
                        y_label="loss",
                        series=(
                            Series(name="reference", x=steps, y=[2.0, 1.5, 1.25, 1.0]),
                            Series(name="npu", x=steps, y=[2.0, None, math.nan, math.inf]),
                        ),
                    ),
                ),
            ),
            Section(title="Findings", blocks=(FindingList(findings=findings, titles={"JM101": "A device string."}),)),
            Section(
                title="Operators",
                blocks=(
                    Text(text="Times are `host` times.\n\nAn estimate."),
                    Table(
                        title="Operators",
                        columns=(
                            Column(title="Operator", code=True),
                            Column(title="Time", unit="µs", number=True, bar=True),
                            Column(title="Agrees"),
                        ),
                        rows=(
                            ("aten::add.Tensor", 1234.5678, True),
                            ("aten::mm", None, False),
                            ("aten::x", -1.0, None),
                        ),
                        marked=(1,),
                    ),
                    BarChart(title="Time", unit="µs", bars=(("aten::mm", 3.0), ("aten::x", -1.0), ("bad", math.nan))),
                    Heat(
                        title="Difference",
                        unit="",
                        values=(("", 0.0), ("layer1.0.conv1", 1e-8), ("layer1.1", None), ("fc", 0.5), ("x", math.inf)),
                    ),
                ),
            ),
            Section(title="Patch", blocks=(Diff(text=PATCH, title="changes.patch"),), collapsed=True),
            Section(
                title="Run",
                blocks=(KeyValues(title="Run", items=(("SoC", "Ascend910B1"), ("lr", 0.1))), Listing(text="done\n")),
            ),
            Section(
                title="Pictures",
                blocks=(
                    Outline(
                        title="Error by module",
                        unit="relative",
                        entries=(OutlineEntry(name="blocks.0.ln", value=1e-7), OutlineEntry(name="head", marked=True)),
                    ),
                    Histogram(
                        title="Values",
                        x_label="value",
                        edges=(-1.0, 0.0, 1.0),
                        series=(Counts(name="a", counts=(3, 5)),),
                    ),
                    Raster(
                        title="Difference", unit="", values=((0.0, -1.0), (math.nan, 2.0)), rows="row", columns="col"
                    ),
                    Questions(questions=(Question(question="Same seeds?", answer="Yes.", mark="fine", decisive=True),)),
                    Excerpt(path="train.py", first_line=9, lines=("a = 1", "b = a"), marked=(10,)),
                    Trace(title="What ran when", header={"count": 0, "rows": [], "steps": []}, payload="eJwDAAAAAAE="),
                    Flame(
                        title="Call paths",
                        nodes=(FlameNode(parent=-1, name="aten::mm", host_ms=1.5, device_ms=0.0, calls=2.0),),
                    ),
                    StackedBars(title="Parts", unit="ms", parts=("host", "wait"), bars=(("step 1", (1.0, 2.0)),)),
                    Roofline(
                        title="Roofs",
                        roofs=(("float16", 1e12),),
                        bandwidth=1e11,
                        dots=(Dot(name="aten::mm 2×2×2", intensity=4.0, achieved=1e10),),
                    ),
                ),
                collapsed=True,
            ),
            Section(title="Empty", blocks=()),
        ),
        footer="Made for a test.",
    )
