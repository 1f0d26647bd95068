"""Who may ask, and what is never sent: judged on a real server, with requests as other pages and programs send them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from view_results import doctor, record
from view_workbench import Workbench

from jumar.base.errors import UsageError
from jumar.view.render import STATIC, static
from jumar.view.server import serving
from jumar.view.server.serving import free_socket


def test_the_address_with_the_token_gives_a_cookie_that_lets_in(workbench: Workbench) -> None:
    entry = workbench.ask(f"/?token={workbench.guard.token}", cookie="")
    assert entry.status == 200
    cookie = entry.headers["set-cookie"]
    assert re.search(r"HttpOnly", cookie)
    assert re.search(r"SameSite=strict", cookie, re.IGNORECASE)
    value = cookie.partition("=")[2].partition(";")[0]
    assert workbench.ask("/", cookie=value).status == 200


@pytest.mark.parametrize("path", ["/", "/results", "/static/page.css", "/curves", "/item/0123456789ab", "/job/x"])
def test_without_the_token_nothing_is_answered(workbench: Workbench, path: str) -> None:
    for cookie in ("", "wrong", workbench.guard.token[:-1]):
        reply = workbench.ask(path, cookie=cookie)
        assert reply.status == 403
        assert "Results</h1>" not in reply.text
    assert workbench.ask(f"{path}?token=wrong").status == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil.example:{port}", "0.0.0.0:{port}", ""]
)
def test_another_host_is_refused_even_with_the_token(workbench: Workbench, host: str) -> None:
    named = host.format(port=workbench.guard.port)
    assert workbench.ask("/", Host=named).status in (400, 403)
    assert workbench.ask(f"/?token={workbench.guard.token}", Host=named).status in (400, 403)


@pytest.mark.parametrize("host", ["localhost", "[::1]"])
def test_other_names_of_this_machine_are_answered(workbench: Workbench, host: str) -> None:
    assert workbench.ask("/", Host=f"{host}:{workbench.guard.port}").status == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
def test_another_origin_is_refused(workbench: Workbench, origin: str) -> None:
    assert workbench.ask("/", Origin=origin).status == 403


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)]
)
def test_a_request_that_another_page_caused_is_refused(workbench: Workbench, site: str, status: int) -> None:
    assert workbench.ask("/", Sec_Fetch_Site=site).status == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_is_changed(workbench: Workbench, method: str) -> None:
    reply = workbench.ask("/", method=method)
    assert reply.status == 405
    assert reply.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/", "/static/view.js", "/nothing", "/curves", "/?token=wrong"])
def test_every_answer_keeps_others_out(workbench: Workbench, path: str) -> None:
    headers = workbench.ask(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "script-src 'self';" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


def test_a_saved_page_is_sent_in_a_sandbox(workbench: Workbench) -> None:
    reply = workbench.ask(f"/item/{workbench.id('accuracy.html')}/file")
    policy = reply.headers["content-security-policy"]
    assert reply.status == 200
    assert "sandbox allow-scripts" in policy
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy
    assert workbench.ask(f"/item/{workbench.id('accuracy.json')}/file").status == 404


@pytest.mark.parametrize(
    "path",
    [
        *("/static/../guard.py", "/static/%2e%2e%2fguard.py", "/static/..%2f..%2f..%2f..%2fetc%2fpasswd"),
        *("/../../etc/passwd", "/item/../../etc/passwd", "/item/%2e%2e%2f%2e%2e%2fetc%2fpasswd"),
        *("/item/%2fetc%2fpasswd", "/item/..%5c..%5cetc", "/static/view.css%00.js", "/item/runs%2freference"),
        *("/item/%00", "/static/", "/static//etc/passwd"),
    ],
)
def test_no_address_leads_out_of_the_folder(workbench: Workbench, path: str) -> None:
    reply = workbench.ask(path)
    assert reply.status in (400, 404)
    assert "root:" not in reply.text
    assert "class Guard" not in reply.text


def test_files_that_a_link_brings_in_are_not_read(own: Workbench, tmp_path: Path) -> None:
    run = record(own.bench.folder.root / "run", steps=2)
    record(tmp_path / "secret", steps=1)
    step = run / "steps" / "step-000001-rank-0.parquet"
    step.unlink()
    step.symlink_to(tmp_path / "secret" / "steps" / "step-000000-rank-0.parquet")
    tensors = run / "tensors" / "step-000000-rank-0.h5"
    tensors.unlink()
    tensors.symlink_to(tmp_path / "secret" / "tensors" / "step-000000-rank-0.h5")
    assert "Rows 1 to 8 of 8" in own.page("run", "/rows").text
    page = own.page("run", "/row?step=0&rank=0&seq=1").text
    assert "Whole tensors were not recorded" in page
    assert 'class="block histogram"' not in page


def test_lines_of_a_source_outside_of_the_folder_are_not_shown(own: Workbench, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("secret = 1\n" * 12)
    record(own.bench.folder.root / "run", command=(str(tmp_path / "train.py"),))
    assert "secret = 1" not in own.page("run", "/row?step=0&rank=0&seq=1").text
    (own.bench.folder.root / "train.py").write_text("shown = 1\n" * 12)
    record(own.bench.folder.root / "other", command=(str(own.bench.folder.root / "train.py"),))
    assert "shown = 1" in own.page("other", "/row?step=0&rank=0&seq=1").text


def test_what_stands_in_files_is_never_markup(own: Workbench) -> None:
    bad = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    record(own.bench.folder.root / "run", command=(bad,))
    doctor(own.bench.folder.root)
    text = (own.bench.folder.root / "job.json").read_text()
    (own.bench.folder.root / "job.json").write_text(text.replace("libhccl.so", bad.replace('"', "")))
    for path in ("/", f"/item/{own.id('run')}", f"/item/{own.id('job.json')}", "/?q=" + bad.replace(" ", "%20")):
        page = own.ask(path).text
        assert "<script>alert" not in page
        assert "<img src=x" not in page


def test_no_page_names_an_address_elsewhere(workbench: Workbench) -> None:
    pages = [workbench.ask("/").text, workbench.page("runs/reference").text, workbench.page("ported").text]
    pages += [body.decode() for name in STATIC if (body := static(name)) is not None]
    for page in pages:
        assert not re.search(r"""(?:src|href|url)\s*[=(]\s*["']?(?:https?:)?//""", page)
        assert not re.search(r"fetch\(\s*[\"']https?:", page)


def test_a_port_that_is_taken_gives_the_next_free_one() -> None:
    with free_socket(0) as first:
        port = first.getsockname()[1]
        with free_socket(port) as second:
            assert port < second.getsockname()[1] <= port + 50
            assert second.getsockname()[0] == "127.0.0.1"


def test_where_no_port_is_free_the_option_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "TRIED", 1)
    with free_socket(0) as only:
        port = only.getsockname()[1]
        with pytest.raises(UsageError, match=f"--port {port}.*--port 0"):
            free_socket(port)
