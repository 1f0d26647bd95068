// The timeline of a profile's page: a canvas over packed columns (jumar/show/pages/profile/trace.py).
(function () {
  const ROW = 17, HEAD = 18, RULER = 22, LEAST = 1, COLUMNS = [["start", 4], ["duration", 4], ["name", 4], ["detail", 4], ["from", 4], ["kind", 1]];
  const COLOURS = { operator: "--p0", range: "--p3", python: "--p10", runtime: "--p7", wait: "--p9", kernel: "--p1", copy: "--p2", collective: "--p4", compile: "--p11", data: "--p5", collector: "--p6", step: "--p3", other: "--p10" };
  const DARK = new Set(["--p0", "--p7", "--p9", "--p1", "--p11", "--p6", "--p3"]);

  function unpacked(bytes, count) { // byte planes -> columns; starts are differences
    const columns = {};
    let at = 0;
    for (const [title, size] of COLUMNS) {
      const values = size === 1 ? bytes.slice(at, at + count) : new Uint32Array(count);
      for (let plane = 0; size > 1 && plane < size; plane++) {
        const shift = 8 * plane, base = at + plane * count;
        for (let i = 0; i < count; i++) values[i] = (values[i] | (bytes[base + i] << shift)) >>> 0;
      }
      columns[title] = values;
      at += size * count;
    }
    for (let i = 1; i < count; i++) columns.start[i] = (columns.start[i] + columns.start[i - 1]) >>> 0;
    return { columns, details: JSON.parse(new TextDecoder().decode(bytes.subarray(at))) };
  }
  function firstAfter(values, low, high, limit) { // first index in [low, high) with a value above the limit
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] > limit) high = middle; else low = middle + 1;
    }
    return low;
  }
  function timeText(ns) {
    const [scale, unit] = ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : ns >= 1e3 ? [1e3, "µs"] : [1, "ns"];
    return `${Number((ns / scale).toPrecision(5))} ${unit}`;
  }
  if (typeof document === "undefined") {
    module.exports = { unpacked, firstAfter, timeText };
    return;
  }

  async function inflated(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  class Trace {
    constructor(figure, header, columns, details) {
      Object.assign(this, { figure, header, columns, details });
      this.stage = figure.querySelector(".stage");
      this.canvas = figure.querySelector("canvas");
      this.status = figure.querySelector(".range");
      this.total = header.rows.reduce((most, [, , first, count]) => {
        for (let i = first; i < first + count; i++) most = Math.max(most, columns.start[i] + columns.duration[i]);
        return most;
      }, 1);
      this.picked = -1;
      this.found = null;
      this.place();
      this.filler = this.stage.appendChild(document.createElement("div"));
      this.filler.className = "filler";
      this.legend();
      const steps = header.steps;
      const first = steps.length ? steps[Math.min(1, steps.length - 1)] : null;
      this.low = first && first[2] > 0 ? Math.max(0, first[1]) : 0;
      this.high = first && first[2] > 0 ? first[2] : this.total;
      this.listen();
      new ResizeObserver(() => this.ask()).observe(this.stage);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.colours = null; this.ask(); });
      this.ask();
    }
    place() { // each lane has a title line, then its rows
      let y = RULER, lane = -1;
      this.titles = [];
      this.lines = this.order().map((row) => {
        if (row[0] !== lane) { lane = row[0]; this.titles.push([y, this.header.lanes[lane]]); y += HEAD; }
        const line = { y, first: row[2], last: row[2] + row[3], lane };
        y += ROW;
        return line;
      });
      this.height = y + 4;
    }
    order() { // the busiest lanes of the host first, then the devices
      const weight = new Map();
      for (const [lane, , , count] of this.header.rows) weight.set(lane, (weight.get(lane) || 0) + count);
      const side = (lane) => (this.header.lanes[lane].side === "host" ? 0 : 1);
      return [...this.header.rows].sort((a, b) => side(a[0]) - side(b[0]) || weight.get(b[0]) - weight.get(a[0]) || a[0] - b[0] || a[1] - b[1]);
    }
    legend() {
      const used = new Set(this.columns.kind);
      const list = this.figure.querySelector(".kinds");
      for (const kind of used) {
        const item = list.appendChild(document.createElement("li"));
        const swatch = item.appendChild(document.createElement("span"));
        swatch.className = "swatch " + COLOURS[this.header.kinds[kind]].slice(2);
        item.append(this.header.kinds[kind]);
      }
    }
    ask() {
      if (this.asked) return;
      this.asked = true;
      requestAnimationFrame(() => { this.asked = false; this.draw(); });
    }
    colour(name) {
      this.colours ||= {};
      return (this.colours[name] ||= getComputedStyle(document.documentElement).getPropertyValue(name).trim());
    }
    draw() {
      const begun = performance.now();
      const wide = this.stage.clientWidth, ratio = devicePixelRatio || 1;
      const high = Math.min(this.height, 544);
      if (!wide) return;
      if (this.canvas.width !== Math.round(wide * ratio) || this.canvas.height !== Math.round(high * ratio)) {
        this.canvas.width = Math.round(wide * ratio);
        this.canvas.height = Math.round(high * ratio);
        this.canvas.style.width = wide + "px";
        this.canvas.style.height = high + "px";
        this.filler.style.height = Math.max(0, this.height - high) + "px";
      }
      const pen = this.canvas.getContext("2d"), top = this.stage.scrollTop;
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.fillStyle = this.colour("--paper");
      pen.fillRect(0, 0, wide, high);
      pen.font = "11px system-ui, sans-serif";
      pen.textBaseline = "middle";
      this.scale = wide / (this.high - this.low);
      for (const line of this.lines) {
        const y = line.y - top;
        if (y > RULER - ROW && y < high) this.row(pen, line, y, wide);
      }
      this.heads(pen, top, wide, high);
      this.arrow(pen, top);
      this.ruler(pen, wide, high);
      this.lastDraw = performance.now() - begun;
      this.status.textContent = `${timeText((this.high - this.low) * this.header.unit_ns)} from ${timeText(this.low * this.header.unit_ns)}`;
    }
    row(pen, line, y, wide) {
      const { start, duration, kind } = this.columns;
      const { low, high, scale } = this;
      let i = Math.max(line.first, firstAfter(start, line.first, line.last, low) - 1);
      while (i < line.last && start[i] < high) {
        const x = (start[i] - low) * scale, w = duration[i] * scale;
        if (x + w < 0) { i++; continue; }
        if (w >= LEAST) {
          this.box(pen, i, Math.max(x, 0), y, Math.min(x + w, wide) - Math.max(x, 0));
          i++;
        } else { // all that begins in this pixel is one mark
          const next = firstAfter(start, i, line.last, Math.max(start[i], low + (Math.floor(x) + 1) / scale - 1e-9));
          pen.fillStyle = this.colour(COLOURS[this.header.kinds[kind[i]]]);
          if (this.found) this.mark(pen, i, next);
          pen.fillRect(Math.floor(x), y + 1, 1, ROW - 2);
          i = Math.max(next, i + 1);
        }
      }
    }
    mark(pen, from, to) { // dim what was not found
      let any = false;
      for (let i = from; i < to && !any; i++) any = this.found.names[this.columns.name[i]] === 1;
      if (!any) pen.fillStyle = this.colour("--edge");
    }
    box(pen, i, x, y, w) {
      const name = COLOURS[this.header.kinds[this.columns.kind[i]]];
      const dim = this.found && !this.found.names[this.columns.name[i]];
      pen.fillStyle = this.colour(dim ? "--edge" : name);
      pen.fillRect(x, y + 1, Math.max(w - 0.5, 0.5), ROW - 2);
      if (i === this.picked) {
        pen.strokeStyle = this.colour("--picked");
        pen.lineWidth = 2;
        pen.strokeRect(x + 1, y + 1, Math.max(w - 2, 1), ROW - 2);
      }
      if (w < 28) return;
      pen.save();
      pen.beginPath();
      pen.rect(x, y, w - 3, ROW);
      pen.clip();
      pen.fillStyle = dim ? this.colour("--quiet") : this.colour(DARK.has(name) ? "--on-dark" : "--on-light");
      pen.fillText(this.header.names[this.columns.name[i]], x + 4, y + ROW / 2 + 0.5);
      pen.restore();
    }
    heads(pen, top, wide, high) {
      for (const [at, lane] of this.titles) {
        const y = at - top;
        if (y < RULER - HEAD || y > high) continue;
        pen.fillStyle = this.colour("--raised");
        pen.fillRect(0, y, wide, HEAD - 1);
        pen.fillStyle = this.colour("--ink");
        pen.fillText(lane.side === "device" && lane.process ? `${lane.name} · ${lane.process}` : lane.name, 5, y + HEAD / 2);
      }
    }
    ruler(pen, wide, high) {
      pen.fillStyle = this.colour("--raised");
      pen.fillRect(0, 0, wide, RULER);
      pen.strokeStyle = this.colour("--strong-edge");
      pen.lineWidth = 1;
      let reached = -1;
      for (const [number, start, end] of this.header.steps) {
        const x = (start - this.low) * this.scale, right = (end - this.low) * this.scale;
        if (right < 0 || x > wide) continue;
        pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, high); pen.stroke();
        const text = `step ${number} · ${timeText((end - start) * this.header.unit_ns)}`;
        const room = pen.measureText(text).width + 8, left = Math.max(x, 0);
        if (left < reached || right - left < room) continue;
        pen.fillStyle = this.colour("--ink");
        pen.fillText(text, left + 4, RULER / 2);
        reached = left + room;
      }
    }
    middle(i) {
      const line = this.lines.find((one) => i >= one.first && i < one.last);
      return line && [(this.columns.start[i] - this.low) * this.scale, line.y + ROW / 2 - this.stage.scrollTop];
    }
    arrow(pen, top) {
      if (this.picked < 0) return;
      for (const other of this.linked(this.picked)) {
        const a = this.middle(this.picked), b = this.middle(other);
        if (!a || !b) continue;
        pen.strokeStyle = this.colour("--picked");
        pen.lineWidth = 1.5;
        pen.beginPath(); pen.moveTo(...a);
        pen.bezierCurveTo(a[0], (a[1] + b[1]) / 2, b[0], (a[1] + b[1]) / 2, ...b);
        pen.stroke();
      }
    }
    linked(i) { // what started this one, and what this one started
      const found = this.columns.from[i] ? [this.columns.from[i] - 1] : [];
      for (let j = 0; j < this.header.count && found.length < 64; j++) if (this.columns.from[j] === i + 1) found.push(j);
      return found;
    }
    at(x, y) {
      const line = this.lines.find((one) => y >= one.y && y < one.y + ROW);
      if (!line) return -1;
      const time = this.low + x / this.scale, { start, duration } = this.columns;
      const slack = 2 / this.scale;
      for (let i = firstAfter(start, line.first, line.last, time + slack) - 1, tries = 0; i >= line.first && tries < 50; i--, tries++) {
        if (start[i] + duration[i] + slack >= time) return i;
      }
      return -1;
    }
    pick(i) {
      this.picked = i;
      this.ask();
      const box = this.figure.querySelector(".picked");
      if (i < 0) { box.replaceChildren(); return; }
      const { columns, header } = this, list = document.createElement("dl");
      const [shapes, dtypes, stack, module_] = columns.detail[i] ? this.details[columns.detail[i] - 1] : ["", "", "", ""];
      const rows = [["name", header.names[columns.name[i]]], ["kind", header.kinds[columns.kind[i]]], ["time", `${timeText(columns.duration[i] * header.unit_ns)} from ${timeText(columns.start[i] * header.unit_ns)}`], ["module", module_], ["shapes", shapes], ["dtypes", dtypes], ["source", stack]];
      for (const [title, text] of rows) {
        if (!text) continue;
        list.append(Object.assign(document.createElement("dt"), { textContent: title }), Object.assign(document.createElement("dd"), { textContent: text }));
      }
      for (const other of this.linked(i)) {
        const button = Object.assign(document.createElement("button"), { type: "button", textContent: `${header.names[columns.name[other]]} (${timeText(columns.duration[other] * header.unit_ns)})` });
        button.addEventListener("click", () => this.show(other));
        const value = document.createElement("dd");
        value.append(button);
        list.append(Object.assign(document.createElement("dt"), { textContent: columns.from[i] === other + 1 ? "started by" : "starts" }), value);
      }
      box.replaceChildren(list);
    }
    show(i) { // bring an event into view
      const { start, duration } = this.columns, length = Math.max(duration[i] * 8, (this.high - this.low) / 20, 20);
      if (start[i] < this.low || start[i] + duration[i] > this.high || duration[i] * this.scale < 4) {
        this.view(start[i] + duration[i] / 2 - length / 2, start[i] + duration[i] / 2 + length / 2);
      }
      const line = this.lines.find((one) => i >= one.first && i < one.last);
      if (line && (line.y < this.stage.scrollTop + RULER || line.y > this.stage.scrollTop + 500)) this.stage.scrollTop = line.y - 200;
      this.pick(i);
    }
    view(low, high) {
      const length = Math.min(Math.max(high - low, 5), this.total);
      this.low = Math.min(Math.max((low + high) / 2 - length / 2, 0), this.total - length);
      this.high = this.low + length;
      this.ask();
    }
    zoom(factor, x) {
      const centre = this.low + (x === undefined ? 0.5 : x / this.stage.clientWidth) * (this.high - this.low);
      this.view(centre - (centre - this.low) * factor, centre + (this.high - centre) * factor);
    }
    move(share) { const by = share * (this.high - this.low); this.view(this.low + by, this.high + by); }
    step(by) {
      const steps = this.header.steps, middle = (this.low + this.high) / 2;
      let index = steps.findIndex(([, start, end]) => middle >= start && middle < end);
      if (index < 0) index = by > 0 ? steps.findIndex(([, start]) => start > middle) - 1 : steps.filter(([, , end]) => end <= middle).length;
      const next = steps[Math.max(0, Math.min(steps.length - 1, index + by))];
      if (next && next[2] > 0) this.view(Math.max(next[1], 0), next[2]);
    }
    search(text) {
      const words = text.toLowerCase().split(/\s+/).filter(Boolean);
      if (!words.length) { this.found = null; this.ask(); return; }
      const names = Uint8Array.from(this.header.names, (name) => words.every((word) => name.toLowerCase().includes(word)));
      this.found = { names, last: -1 };
      let count = 0;
      for (let i = 0; i < this.header.count; i++) count += names[this.columns.name[i]];
      this.ask();
      requestAnimationFrame(() => { this.status.textContent = `${count.toLocaleString("en")} found`; });
    }
    next() {
      if (!this.found) return;
      const { name, start } = this.columns, after = this.picked >= 0 && this.found.names[name[this.picked]] ? start[this.picked] : -1;
      let best = -1, first = -1;
      for (let i = 0; i < this.header.count; i++) {
        if (!this.found.names[name[i]]) continue;
        if (first < 0 || start[i] < start[first]) first = i;
        if (start[i] > after && (best < 0 || start[i] < start[best])) best = i;
      }
      if (best >= 0 || first >= 0) this.show(best >= 0 ? best : first);
    }
    listen() {
      const DO = { in: () => this.zoom(0.5), out: () => this.zoom(2), back: () => this.step(-1), on: () => this.step(1), all: () => this.view(0, this.total), found: () => this.next() };
      this.figure.querySelector(".tools").addEventListener("click", (event) => {
        const action = event.target.closest("button") && DO[event.target.closest("button").dataset.do];
        if (action) action();
      });
      const field = this.figure.querySelector("input[type=search]");
      field.addEventListener("input", () => this.search(field.value));
      field.addEventListener("keydown", (event) => { if (event.key === "Enter") this.next(); });
      const KEYS = { w: () => this.zoom(0.6), s: () => this.zoom(1 / 0.6), a: () => this.move(-0.2), d: () => this.move(0.2), ArrowLeft: () => this.move(-0.2), ArrowRight: () => this.move(0.2), "+": () => this.zoom(0.6), "-": () => this.zoom(1 / 0.6), "0": () => this.view(0, this.total), Escape: () => this.pick(-1) };
      this.stage.addEventListener("keydown", (event) => {
        const action = !event.ctrlKey && !event.metaKey && (KEYS[event.key] || KEYS[event.key.toLowerCase()]);
        if (!action) return;
        event.preventDefault();
        action();
      });
      this.stage.addEventListener("scroll", () => this.ask());
      this.stage.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.shiftKey && !event.deltaX) return;
        event.preventDefault();
        const x = event.clientX - this.stage.getBoundingClientRect().left;
        if (event.ctrlKey) this.zoom(Math.exp(event.deltaY / 200), x); else this.move((event.deltaX || event.deltaY) / this.stage.clientWidth);
      }, { passive: false });
      this.pointers();
    }
    pointers() { // one finger or the mouse drags, two fingers zoom, a click picks
      const down = new Map();
      let moved = 0;
      this.canvas.addEventListener("pointerdown", (event) => { down.set(event.pointerId, event.clientX); moved = 0; this.canvas.setPointerCapture(event.pointerId); });
      this.canvas.addEventListener("pointermove", (event) => {
        if (!down.has(event.pointerId)) return;
        const before = [...down.values()], by = event.clientX - down.get(event.pointerId);
        down.set(event.pointerId, event.clientX);
        const after = [...down.values()];
        moved += Math.abs(by);
        if (after.length === 1) this.move(-by / this.stage.clientWidth);
        else if (after.length === 2) this.zoom(Math.max(Math.abs(before[0] - before[1]), 10) / Math.max(Math.abs(after[0] - after[1]), 10), (after[0] + after[1]) / 2 - this.stage.getBoundingClientRect().left);
      });
      const up = (event) => {
        if (down.delete(event.pointerId) && event.type === "pointerup" && moved < 4) {
          const box = this.canvas.getBoundingClientRect();
          this.pick(this.at(event.clientX - box.left, event.clientY - box.top + this.stage.scrollTop));
        }
      };
      this.canvas.addEventListener("pointerup", up);
      this.canvas.addEventListener("pointercancel", up);
    }
  }

  document.querySelectorAll(".trace").forEach(async (figure) => {
    const header = JSON.parse(figure.querySelector(".trace-header").textContent);
    try {
      const bytes = await inflated(figure.querySelector(".trace-payload").textContent);
      const { columns, details } = unpacked(bytes, header.count);
      figure.trace = new Trace(figure, header, columns, details);
    } catch (error) { // an old browser: say so and keep the rest of the page
      figure.querySelector(".picked").textContent = `The timeline cannot be drawn here (${error.message}). Use a browser from 2023 or later, or jumar advise --perfetto.`;
    }
  });
})();
