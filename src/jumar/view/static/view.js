"use strict";
// What pages of the workbench do by themselves: parts that are asked for again, jobs, choices, counts.
(function () {
  const PAUSE_MS = 2000;

  async function part(address) {
    const answer = await fetch(address, { headers: { Accept: "text/html" } });
    return { status: answer.status, seen: answer.headers.get("X-Seen"), html: answer.status === 204 ? "" : await answer.text() };
  }
  // Puts HTML that the server made into an element, and tells the blocks' script.
  function put(element, html) {
    const parsed = new DOMParser().parseFromString(html, "text/html");
    element.replaceChildren(...parsed.body.childNodes);
    element.dispatchEvent(new CustomEvent("jumar:added", { bubbles: true }));
  }
  window.jumarPut = put;
  window.jumarPart = part;

  function poll(element) {
    const news = document.querySelector(".news");
    async function look() {
      const address = element.dataset.poll + (element.dataset.poll.includes("?") ? "&" : "?") + "seen=" + encodeURIComponent(element.dataset.seen);
      try {
        const found = await part(address);
        if (found.status === 404) {
          if (news) news.textContent = "This result is gone: a tuning that ends removes its journal. Its result is in the list, and in the bank.";
          return;
        }
        if (found.status === 200) {
          const chosen = new Set([...element.querySelectorAll("input:checked")].map((box) => box.value));
          const focused = element.contains(document.activeElement) ? document.activeElement.id : "";
          put(element, found.html);
          element.dataset.seen = found.seen || "";
          element.querySelectorAll("input[type=checkbox]").forEach((box) => { box.checked = chosen.has(box.value); });
          if (focused && document.getElementById(focused)) document.getElementById(focused).focus();
          if (news) { news.textContent = element.dataset.news; setTimeout(() => { news.textContent = ""; }, 6000); }
          element.dispatchEvent(new Event("change", { bubbles: true }));
        }
      } catch (error) { // the server has ended: say so once, go on asking
        if (news) news.textContent = "The server does not answer. It was ended, or this machine sleeps.";
      }
      setTimeout(look, PAUSE_MS);
    }
    setTimeout(look, PAUSE_MS);
  }

  function job(element) {
    const bar = element.querySelector("progress"), told = element.querySelector("[role=status]");
    async function look() {
      try {
        const answer = await fetch(element.dataset.job);
        const found = answer.ok ? await answer.json() : { state: "gone" };
        if (found.state === "done" || found.state === "failed" || found.state === "gone") {
          location.replace(element.dataset.again);
          return;
        }
        told.textContent = found.state === "waiting" ? "Waiting for its turn…" : found.total ? `Working: ${found.done} of ${found.total}` : "Working…";
        if (found.total) { bar.max = found.total; bar.value = found.done; }
      } catch (error) {
        told.textContent = "The server does not answer.";
      }
      setTimeout(look, 400);
    }
    setTimeout(look, 250);
  }

  async function load(element) {
    try {
      put(element, (await part(element.dataset.load)).html);
    } catch (error) {
      element.textContent = "The server does not answer.";
    }
  }

  function choosing(form) {
    const order = [];
    function update() {
      const boxes = [...document.querySelectorAll("#results input[name=run]")];
      boxes.forEach((box) => {
        const place = order.indexOf(box.value);
        if (box.checked && place < 0) order.push(box.value);
        if (!box.checked && place >= 0) order.splice(place, 1);
      });
      form.hidden = !order.length;
      form.querySelector(".number").textContent = order.length;
      form.querySelector("[data-need]").disabled = order.length !== 2;
    }
    // The first that is chosen is the reference, wherever it stands in the list.
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const place = event.submitter && event.submitter.getAttribute("formaction") || form.getAttribute("action");
      location.assign(`${place}?${order.map((id) => `run=${encodeURIComponent(id)}`).join("&")}`);
    });
    form.querySelector("[data-clear]").addEventListener("click", () => {
      document.querySelectorAll("#results input:checked").forEach((box) => { box.checked = false; });
      update();
    });
    document.addEventListener("change", update);
    update();
  }

  document.querySelectorAll("[data-poll]").forEach(poll);
  document.querySelectorAll("[data-job]").forEach(job);
  document.querySelectorAll("[data-load]").forEach(load);
  document.querySelectorAll("form#chosen").forEach(choosing);
  document.addEventListener("keydown", (event) => { // "/" goes to the nearest search, as elsewhere
    const typing = /^(input|select|textarea)$/i.test(event.target.tagName);
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const field = document.querySelector("main input[type=search]") || document.querySelector("input[type=search]");
    if (field) { event.preventDefault(); field.focus(); }
  });
})();
