"""What the pages say, asked for over HTTP, of whole results and of damaged ones."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from view_results import record, screening
from view_workbench import Workbench


def plain(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def links(html: str) -> list[str]:
    found = re.findall(r'(?:href|src|data-load|data-poll|data-tree)="(/[^"]*)"', html)
    return [unescape(one) for one in found]


def test_every_page_answers_and_every_link_leads_somewhere(workbench: Workbench) -> None:
    seen: set[str] = set()
    waiting = ["/"]
    while waiting and len(seen) < 150:
        path = waiting.pop(0)
        reply = workbench.settled(path)
        assert reply.status == 200, path
        seen.add(path)
        new = {re.sub(r"(seq|first)=\d+", r"\1=1", one) for one in links(reply.text)} - seen - set(waiting)
        waiting += sorted(new)
    assert len(seen) > 60


def test_the_list_has_each_result_with_its_verdict(workbench: Workbench) -> None:
    page = workbench.ask("/").text
    assert len(re.findall(r'class="result"', page)) == 14
    assert "The runs diverge first at aten::tanh" in page
    assert 'href="/?kind=comparison"' in page
    assert "The run goes on, or it was killed." in page


def test_the_list_answers_nothing_new_to_who_has_it(workbench: Workbench) -> None:
    first = workbench.ask("/results?q=&kind=")
    assert first.status == 200
    again = workbench.ask(f"/results?q=&kind=&seen={first.headers['x-seen']}")
    assert (again.status, again.text) == (204, "")


def test_a_new_result_is_in_the_next_answer(own: Workbench) -> None:
    empty = own.ask("/results?q=&kind=")
    assert "Nothing here yet" in empty.text
    record(own.bench.folder.root / "run")
    own.bench.catalogue.look(fresh=True)
    full = own.ask(f"/results?q=&kind=&seen={empty.headers['x-seen']}")
    assert (full.status, full.text.count('class="result"')) == (200, 1)


def test_two_recordings_are_compared_and_the_tree_leads_to_the_first_divergence(workbench: Workbench) -> None:
    runs = f"run={workbench.id('runs/reference')}&run={workbench.id('runs/target')}"
    page = workbench.settled(f"/compare?{runs}").text
    assert "The runs diverge first at aten::tanh in layers.1.attn" in page
    address = re.search(r'data-tree="([^"]+)"', page)
    assert address is not None
    tree = json.loads(workbench.ask(f"{address[1]}?step=0").text)
    depth, label, colour, value, note, call = tree["rows"][tree["first"]]
    assert (label, note) == ("aten::tanh", "diverge")
    way = [row[1] for row in tree["rows"][: tree["first"]] if row[0] < depth][-3:]
    assert way == ["layers", "1", "attn"] or way[-1] == "attn"
    assert colour.startswith("h")
    assert float(value) > 0.3
    told = plain(workbench.ask(f"{address[1].removesuffix('tree')}call/{call}").text)
    assert "Both sides' statistics" in told
    assert "sketch distance" in told
    assert "Values of output.0" in told
    assert "line_4 = 4" in told  # the line of the source


def test_modules_show_the_greatest_error_below_them(workbench: Workbench) -> None:
    runs = f"run={workbench.id('runs/reference')}&run={workbench.id('runs/target')}&all=1"
    page = workbench.settled(f"/compare?{runs}").text
    address = re.search(r'data-tree="([^"]+)"', page)
    assert address is not None
    assert 'data-steps="0 1 2"' in page
    rows = json.loads(workbench.ask(f"{address[1]}?step=1").text)["rows"]
    by_label = {row[1]: row for row in rows if row[5] < 0 and row[0] == 0}
    greatest = max(float(row[3]) for row in rows if row[5] >= 0 and row[3])
    assert max(float(row[3]) for row in by_label.values() if row[3]) == greatest
    assert {row[1] for row in rows if row[0] == 0} == {"forward", "optimizer"}


def test_a_comparison_takes_two_recordings(workbench: Workbench) -> None:
    one = workbench.id("runs/reference")
    for runs in ("", f"run={one}", f"run={one}&run=nothing", f"run={one}&run={workbench.id('job.json')}"):
        assert "A comparison takes two recordings" in plain(workbench.ask(f"/compare?{runs}").text)


def test_a_saved_comparison_has_its_tree_and_its_recordings(workbench: Workbench) -> None:
    page = workbench.page("accuracy.json").text
    assert "A saved comparison holds the calls that diverge" in page
    assert "so there are no pictures" not in page
    address = re.search(r'data-call="([^"]+)"', page)
    assert address is not None
    assert "Values of output.0" in plain(workbench.ask(f"{address[1]}0").text)


def test_a_recording_says_what_is_in_it(workbench: Workbench) -> None:
    told = plain(workbench.page("runs/reference").text)
    assert "3 steps, 0 to 2. The run finished." in told
    assert "runs/target" in told  # to compare with
    charts = plain(workbench.page("runs/reference", "/charts").text)
    assert "Loss by step" in charts
    assert "aten::tanh" in charts


def test_rows_are_paged_and_counted(workbench: Workbench) -> None:
    page = workbench.page("runs/reference", "/rows?q=layers.1&sort=duration_us&down=1").text
    cells = re.findall(r'<td class="c"><a href="([^"]+)">(.*?)</a>', page)
    assert len(cells) == 6
    assert re.findall(r"step=(\d)&amp;rank=0&amp;seq=(\d)", page)[:2] == [("2", "4"), ("1", "4")]
    assert 'aria-sort="descending"' in page
    assert "Rows 1 to 6 of 6" in page


def test_one_call_has_its_tensors_with_statistics_and_histograms(workbench: Workbench) -> None:
    page = workbench.page("runs/reference", "/row?step=1&rank=0&seq=3").text
    told = plain(page)
    assert "layers.1.attn" in told
    assert "4×32" in told
    assert page.count('class="block histogram"') == 2
    assert "line_4 = 4" in told


@pytest.mark.parametrize(
    "query", ["", "step=99&seq=0", "step=0&seq=99", "step=-1&seq=0", "step=0&rank=7&seq=0", "step=x&seq=y"]
)
def test_a_call_that_is_not_there_is_not_found(workbench: Workbench, query: str) -> None:
    assert workbench.page("runs/reference", f"/row?{query}").status == 404


@pytest.mark.parametrize("what", ["loss", "gradient", "parameter"])
def test_curves_of_several_runs_lie_over_each_other(workbench: Workbench, what: str) -> None:
    runs = f"run={workbench.id('runs/reference')}&run={workbench.id('runs/target')}"
    page = workbench.settled(f"/curves?{runs}&what={what}&log=1").text
    data = json.loads(re.search(r'class="chart-data">(.*?)</script>', page)[1])  # type: ignore[index]
    assert data["names"] == ["runs/reference", "runs/target"]
    assert "(log scale)" in page
    if what != "loss":
        assert '<option value="head.weight">' in page
        assert "over 3 points" in workbench.settled(f"/curves?{runs}&what={what}&name=head.weight").text
        assert "It holds no" in workbench.settled(f"/curves?{runs}&what={what}&name=absent").text


def test_a_port_shows_its_page_and_leads_to_its_recordings(workbench: Workbench) -> None:
    page = workbench.page("ported").text
    assert "The runs diverge first" in page
    reference, target = workbench.id("ported/reference"), workbench.id("ported/npu")
    assert f"/item/{reference}" in page
    assert f"/compare?run={reference}&amp;run={target}" in page


def test_doctor_reports_are_made_of_their_json(workbench: Workbench) -> None:
    logs, machine = plain(workbench.page("job.json").text), plain(workbench.page("machine.json").text)
    assert "The first error: libhccl.so is not there." in logs
    assert "Source set_env.sh." in logs
    assert "The cores are throttled." in machine
    assert "Python 3.11" in machine


def test_a_profile_shows_advice_and_the_timeline(workbench: Workbench) -> None:
    page = workbench.page("profiled").text
    assert "Bottlenecks of" in page
    assert '<script src="/static/trace.js"' in page
    assert 'class="trace-payload"' in page


def test_a_tuning_shows_candidates_intervals_and_the_front(workbench: Workbench) -> None:
    place = "tuning/aoe_workspace/reference_0123456789abcdef.job"
    page = workbench.page(place).text
    told = plain(page)
    assert "threads 2 measured 1.5 +48.0 to +52.0 %" in told
    assert "Speed against error" in told
    front = re.findall(r'<tr class="mark"><td class="c">.*?</td><td class="c">(.*?)</td>', page)
    assert front == ["threads 2", "threads 1"]
    fastest = re.findall(r'<td class="c">(threads \d)</td>', workbench.page(place, "?order=speed").text)
    assert fastest == ["threads 2", "threads 1", "threads 3"]


def test_a_tuning_that_goes_on_shows_the_next_candidate(own: Workbench) -> None:
    journal = own.bench.folder.root / "run.job"
    journal.write_text(json.dumps({"jumar_job": 1, "name": "model.onnx"}) + "\n" + screening(1, 1.2, 1e-6))
    live = f"/item/{own.id('run.job')}/live?order=time"
    first = own.ask(live)
    assert own.ask(f"{live}&seen={first.headers['x-seen'].replace(' ', '%20')}").status == 204
    with journal.open("a") as file:
        file.write(screening(2, 1.5, 1e-5) + screening(3, 2.0, 1e-4)[:40])
    own.bench.catalogue.look(fresh=True)
    told = plain(own.ask(f"{live}&seen={first.headers['x-seen'].replace(' ', '%20')}").text)
    assert "threads 2 measured" in told
    assert "threads 3" not in told
    assert "The last line is not whole" in told


def test_the_vendors_result_file_says_what_became_faster(workbench: Workbench) -> None:
    told = plain(workbench.page("tuning/aoe_result_opat_20260102030405006_pid7.json").text)
    assert "tuning successful" in told.lower()
    assert "mm_0 aten::mm threads 100 80 25.00%" in told


def test_a_bank_is_searched_and_says_why_it_misses(workbench: Workbench) -> None:
    place = "tuning/jumar_tune_bank.sqlite3"
    page = workbench.page(place).text
    assert "aten::tanh(float32 8×16)" in page
    assert "1 of 1 entries" in plain(page)
    assert "0 of 1 entries" in plain(workbench.page(place, "?q=conv2d").text)
    key = re.search(r"entry\?key=(\w+)", page)
    assert key is not None
    assert "+38.0 to +42.0 %" in plain(workbench.page(place, f"/entry?key={key[1]}").text)
    told = plain(workbench.page(place, f"/why-miss?run={workbench.id('runs/reference')}").text)
    assert "The bank knows 0 of" in told
    assert "miss" in told


DAMAGE = {
    "run.json": lambda path: path.write_text('{"schema_version": 2, "jumar_version": "x", "steps": "no"}'),
    "end-rank-0.json": lambda path: path.write_text("{"),
    "steps/step-000001-rank-0.parquet": lambda path: path.write_bytes(path.read_bytes()[:700]),
    "tensors/step-000000-rank-0.h5": lambda path: path.write_bytes(path.read_bytes()[:900]),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_recording_is_shown_as_such_and_never_fails_the_server(own: Workbench, name: str) -> None:
    root = own.bench.folder.root
    record(root / "whole")
    run = record(root / "run")
    DAMAGE[name](run / name)
    one, other = own.id("run"), own.id("whole")
    rest = ("", "/charts", "/rows?sort=name", "/advice", "/row?step=1&seq=0", "/row?step=0&seq=1")
    whole = (f"/compare?run={one}&run={other}", f"/curves?run={one}&run={other}", f"/curves?run={one}&what=gradient")
    pages = [own.settled(path) for path in ("/", *(f"/item/{one}{part}" for part in rest), *whole)]
    assert {page.status for page in pages} <= {200, 404}
    words = ("cut short", "damaged", "cannot be read", "must be")
    assert any(word in plain(page.text) for page in pages[:2] for word in words) or any(
        word in plain(pages[7].text) for word in words
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"first_divergence": 1, "operators": 2, "reference": 3, "target": 4}',
        '{"tasks": {}, "machine": 1, "min_gain": "x", "summary": []}',
        '{"first": {}, "files": 3, "notes": {"a": [1, {"b": null}]}}',
        '{"findings": {"a": 1}, "rows": [{"a": 1}, {"b": [2]}]}',
        '{"deep": ' + "[" * 500 + "]" * 500 + "}",
    ],
)
def test_a_document_of_another_form_is_told_and_never_fails_the_server(own: Workbench, text: str) -> None:
    head = '{"schema_version": 1, "jumar_version": "1", '
    (own.bench.folder.root / "odd.json").write_text(head + text[1:])
    assert own.ask("/").status == 200
    assert own.page("odd.json").status == 200


def test_a_result_that_is_removed_is_not_found(own: Workbench) -> None:
    file = own.bench.folder.root / "run.job"
    file.write_text(json.dumps({"jumar_job": 1, "name": "x"}) + "\n")
    address = f"/item/{own.id('run.job')}"
    assert own.ask(address).status == 200
    file.unlink()
    own.bench.catalogue.look(fresh=True)
    assert own.ask(address).status == 404


def test_a_page_of_another_kind_is_not_found(workbench: Workbench) -> None:
    for rest in ("/rows", "/live", "/entry", "/why-miss", "/charts"):
        assert workbench.page("job.json", rest).status == 404
