"use strict";
// The tree of a comparison. Rows come depth first: [depth, label, colour, value, note, call]; call is -1 of a module.
// Only the rows in sight are drawn, so that a model of 50,000 calls scrolls.
(function () {
  const section = document.querySelector(".compared");
  if (!section) return;
  const box = section.querySelector(".tree-box"), pane = section.querySelector(".pane"), legend = section.querySelector(".legend");
  const filter = section.querySelector("input[type=search]"), slider = section.querySelector("input[type=range]"), status = section.querySelector(".range");
  const HEIGHT = 28, MARGIN = 8, OPEN_AT_FIRST = 40;
  const canvas = box.appendChild(document.createElement("div"));
  canvas.setAttribute("role", "presentation");
  let rows = [], parents = [], ends = [], open = new Set(), shown = [], active = 0, chosen = -1, first = -1, asked = 0;

  function isFolder(index) { return ends[index] > index + 1; }
  function measure() { // each row's parent, and the first row behind all that is below it
    parents = new Array(rows.length).fill(-1);
    ends = new Array(rows.length).fill(rows.length);
    const way = [];
    rows.forEach(([depth], index) => {
      while (way.length > depth) ends[way.pop()] = index;
      parents[index] = way.length ? way[way.length - 1] : -1;
      way.push(index);
    });
  }
  function visible() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let kept = null;
    if (words.length) { // what matches, the way to it, and what is below it
      kept = new Uint8Array(rows.length);
      const path = [];
      let num = 0;
      rows.forEach(([depth, label], index) => {
        path.length = depth;
        path[depth] = label.toLowerCase();
        const text = path.join(".");
        if (!words.every((word) => text.includes(word))) return;
        kept[index] = 1;
        num += rows[index][5] >= 0 ? 1 : 0;
        for (let up = parents[index]; up >= 0 && !kept[up]; up = parents[up]) kept[up] = 1;
      });
      status.textContent = `${num.toLocaleString("en-US")} calls match`;
    } else status.textContent = "";
    shown = [];
    for (let index = 0; index < rows.length;) {
      if (kept && !kept[index]) { index += 1; continue; }
      shown.push(index);
      index = !isFolder(index) || kept || open.has(index) ? index + 1 : ends[index];
    }
    canvas.style.height = shown.length * HEIGHT + "px";
    active = Math.max(0, Math.min(active, shown.length - 1));
  }
  function span(className, text) {
    const node = document.createElement("span");
    node.className = className;
    node.textContent = text;
    return node;
  }
  function line(place) {
    const index = shown[place], [depth, label, colour, value, note, call] = rows[index];
    const node = document.createElement("div");
    node.className = "row" + (index === first ? " first" : "") + (place === active ? " active" : "");
    node.id = "row-" + index;
    node.setAttribute("role", "treeitem");
    node.setAttribute("aria-level", depth + 1);
    node.setAttribute("aria-selected", String(call >= 0 && call === chosen));
    if (isFolder(index)) node.setAttribute("aria-expanded", String(open.has(index) || Boolean(filter.value.trim())));
    node.style.position = "absolute";
    node.style.top = place * HEIGHT + "px";
    node.style.paddingLeft = depth * 16 + 4 + "px";
    const fold = span("fold", isFolder(index) ? (open.has(index) || filter.value.trim() ? "▾" : "▸") : "");
    fold.setAttribute("aria-hidden", "true");
    node.append(fold, span("chip " + colour, value || "–"), span("name", label), span("note", index === first ? `${note}: the runs part here` : note === "agree" ? "" : note));
    node.dataset.place = place;
    return node;
  }
  function draw() {
    const from = Math.max(0, Math.floor(box.scrollTop / HEIGHT) - MARGIN);
    const to = Math.min(shown.length, Math.ceil((box.scrollTop + box.clientHeight) / HEIGHT) + MARGIN);
    const fragment = document.createDocumentFragment();
    for (let place = from; place < to; place += 1) fragment.append(line(place));
    canvas.replaceChildren(fragment);
    if (shown.length) box.setAttribute("aria-activedescendant", "row-" + shown[active]); else box.removeAttribute("aria-activedescendant");
  }
  function refresh() { visible(); draw(); }
  function see(place) {
    active = Math.max(0, Math.min(shown.length - 1, place));
    const top = active * HEIGHT;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + HEIGHT > box.scrollTop + box.clientHeight) box.scrollTop = top + HEIGHT - box.clientHeight;
    draw();
  }
  function reveal(index) { // open all above, and go there
    for (let up = parents[index]; up >= 0; up = parents[up]) open.add(up);
    visible();
    const place = shown.indexOf(index);
    if (place < 0) return;
    box.scrollTop = Math.max(0, place * HEIGHT - box.clientHeight / 2);
    see(place);
  }
  function toggle(index) {
    if (!isFolder(index)) return;
    if (open.has(index)) open.delete(index); else open.add(index);
    refresh();
  }
  async function choose(index) {
    const call = rows[index][5];
    if (call < 0) { toggle(index); return; }
    chosen = call;
    draw();
    const turn = asked += 1;
    pane.setAttribute("aria-busy", "true");
    try {
      const found = await window.jumarPart(section.dataset.call + call);
      if (turn === asked) window.jumarPut(pane, found.html);
    } catch (error) {
      pane.textContent = "The server does not answer.";
    }
    pane.removeAttribute("aria-busy");
  }
  function toFirst() {
    if (first < 0) return;
    filter.value = "";
    reveal(first);
    box.focus();
    choose(first);
  }
  async function take(step) {
    const answer = await fetch(section.dataset.tree + (step === "" ? "" : "?step=" + step));
    if (!answer.ok) { status.textContent = "This comparison was made too long ago. Load the page again."; return; }
    const found = await answer.json();
    const names = new Set([...open].map(nameOf));
    rows = found.rows;
    first = found.first;
    measure();
    open = new Set();
    rows.forEach((row, index) => { if (row[5] < 0 && (rows.length <= OPEN_AT_FIRST || row[0] === 0 || names.has(nameOf(index)))) open.add(index); });
    legend.replaceChildren(...found.legend.map(([css, label]) => {
      const entry = document.createElement("li");
      entry.append(span("swatch " + css, ""), document.createTextNode(label));
      return entry;
    }));
    active = 0;
    refresh();
    if (first >= 0) { reveal(first); choose(first); }
  }
  function nameOf(index) {
    const parts = [];
    for (let up = index; up >= 0; up = parents[up]) parts.push(rows[up] ? rows[up][1] : "");
    return parts.join("/");
  }

  box.addEventListener("scroll", draw);
  box.addEventListener("click", (event) => {
    const node = event.target.closest(".row");
    if (!node) return;
    active = Number(node.dataset.place);
    const index = shown[active];
    if (event.target.closest(".fold") || rows[index][5] < 0) { toggle(index); draw(); } else choose(index);
  });
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !shown.length) return;
    const index = shown[active], page = Math.max(1, Math.floor(box.clientHeight / HEIGHT) - 1);
    const moves = { ArrowDown: active + 1, ArrowUp: active - 1, Home: 0, End: shown.length - 1, PageDown: active + page, PageUp: active - page };
    if (event.key in moves) see(moves[event.key]);
    else if (event.key === "ArrowRight") { if (isFolder(index) && !open.has(index)) toggle(index); else see(active + (isFolder(index) ? 1 : 0)); }
    else if (event.key === "ArrowLeft") { if (isFolder(index) && open.has(index)) toggle(index); else if (parents[index] >= 0) see(shown.indexOf(parents[index])); }
    else if (event.key === "Enter" || event.key === " ") choose(index);
    else if (event.key === "*") { for (let below = index; below < ends[index]; below += 1) if (isFolder(below)) open.add(below); refresh(); }
    else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    if (/^(input|select|textarea)$/i.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "n" || event.key === "N") { event.preventDefault(); toFirst(); }
  });
  section.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-do]");
    if (!button) return;
    if (button.dataset.do === "first") toFirst();
    if (button.dataset.do === "open") { rows.forEach((_, index) => { if (isFolder(index)) open.add(index); }); refresh(); }
    if (button.dataset.do === "close") { open = new Set(); box.scrollTop = 0; refresh(); }
  });
  filter.addEventListener("input", () => { active = 0; box.scrollTop = 0; refresh(); });
  filter.addEventListener("keydown", (event) => { if (event.key === "Escape") { filter.value = ""; refresh(); box.focus(); } });
  const steps = slider ? slider.dataset.steps.split(" ") : [];
  let waiting = 0;
  if (slider) slider.addEventListener("input", () => {
    const step = steps[Number(slider.value)];
    section.querySelector("output").textContent = step;
    slider.setAttribute("aria-valuetext", "step " + step);
    clearTimeout(waiting);
    waiting = setTimeout(() => take(step), 120);
  });
  take(slider ? steps[Number(slider.value)] : "");
})();
