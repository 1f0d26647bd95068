"use strict";
(function () {
  const NO_VALUE = "–";

  // The same rule as jumar/base/text/digits.py, for rows that are drawn here.
  function withoutZeros(text) {
    return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
  }
  function grouped(text) {
    const [whole, fraction] = text.split(".");
    const groups = whole.replace(/\B(?=(\d{3})+$)/g, ",");
    return fraction === undefined ? groups : groups + "." + fraction;
  }
  function numberText(value, significant) {
    if (Number.isNaN(value)) return "NaN";
    if (!Number.isFinite(value)) return value > 0 ? "Inf" : "-Inf";
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e15 || size < 1e-4) {
      const [mantissa, exponent] = value.toExponential(significant - 1).split("e");
      const exact = Number(mantissa + "e" + exponent) === value;
      return (exact ? withoutZeros(mantissa) : mantissa) + "e" + Number(exponent);
    }
    if (Number.isInteger(value)) return grouped(String(value));
    const digits = Math.max(0, significant - 1 - Number(value.toExponential(significant - 1).split("e")[1]));
    const text = value.toFixed(digits);
    return grouped(Number(text) === value ? withoutZeros(text) : text);
  }
  function asNumber(value) { // JSON has no NaN and Infinity: they come as strings
    return typeof value === "number" ? value : value === "NaN" || /^-?Infinity$/.test(value) ? Number(value) : null;
  }
  function cellText(value, [isNumber, , , significant]) {
    if (value === null) return NO_VALUE;
    if (typeof value === "boolean") return value ? "yes" : "no";
    const number = typeof value === "number" || isNumber ? asNumber(value) : null;
    return number === null ? String(value) : numberText(number, significant);
  }
  if (typeof document === "undefined") { // loaded by a test outside a browser
    module.exports = { numberText, cellText };
    return;
  }

  document.documentElement.classList.add("scripted");

  function element(name, className, text) {
    const node = document.createElement(name);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  }

  function compare(a, b, isNumber) {
    if (isNumber) {
      const x = asNumber(a), y = asNumber(b);
      if (x === null || y === null || Number.isNaN(x) || Number.isNaN(y)) return 0;
      return x - y || 0;
    }
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }
  // What has no order (no value, then NaN) goes last in both directions.
  function rank(value, isNumber) {
    if (value === null) return 2;
    return isNumber && (asNumber(value) === null || Number.isNaN(asNumber(value))) ? 1 : 0;
  }

  function interactiveTable(block) {
    const source = block.querySelector(":scope > script.rows");
    const table = block.querySelector(":scope > .scroll table");
    if (!source || !table) return;
    const { page, columns, rows, marked } = JSON.parse(source.textContent);
    const isMarked = new Set(marked);
    const body = table.tBodies[0];
    const headings = [...table.tHead.rows[0].cells];
    const search = block.querySelector("input[type=search]");
    const onlyMarked = block.querySelector("input[type=checkbox]");
    const range = block.querySelector(".range");
    const pager = block.querySelector(".pager");
    let order = rows.map((_, index) => index), sorted = -1, ascending = true, start = 0, texts = null;

    function textOf(index) {
      if (!texts) texts = rows.map((row) => row.map((value, i) => cellText(value, columns[i])).join("\u0001").toLowerCase());
      return texts[index];
    }
    function drawCell(value, column) {
      const [isNumber, isCode, greatest] = column;
      const cell = element("td", [isNumber && "n", isCode && "c", value === null && "z"].filter(Boolean).join(" "), cellText(value, column));
      const number = typeof value === "number" ? value : null;
      if (number !== null && Number(cell.textContent.replace(/,/g, "")) !== number) cell.title = String(number);
      if (greatest && number !== null) {
        cell.classList.add("b");
        cell.style.setProperty("--w", (Math.abs(number) / greatest * 100).toFixed(1) + "%");
      }
      return cell;
    }
    function drawRange() {
      if (!range) return;
      const last = Math.min(start + page, order.length);
      const found = order.length === rows.length ? "" : " found in " + grouped(String(rows.length));
      range.textContent = order.length ? `${grouped(String(start + 1))}–${grouped(String(last))} of ${grouped(String(order.length))}${found}` : "no row matches";
      pager.hidden = rows.length <= page;
      const [back, on] = pager.querySelectorAll("button");
      back.disabled = start === 0;
      on.disabled = last >= order.length;
    }
    function draw() {
      const fragment = document.createDocumentFragment();
      for (const index of order.slice(start, start + page)) {
        const line = element("tr", isMarked.has(index) ? "mark" : "");
        rows[index].forEach((value, i) => line.append(drawCell(value, columns[i])));
        fragment.append(line);
      }
      body.replaceChildren(fragment);
      drawRange();
    }
    function arrange() {
      const words = search ? search.value.toLowerCase().split(/\s+/).filter(Boolean) : [];
      order = [];
      rows.forEach((_, index) => {
        if (onlyMarked && onlyMarked.checked && !isMarked.has(index)) return;
        if (words.every((word) => textOf(index).includes(word))) order.push(index);
      });
      if (sorted >= 0) {
        const isNumber = columns[sorted][0], sign = ascending ? 1 : -1;
        order.sort((a, b) => {
          const x = rows[a][sorted], y = rows[b][sorted];
          return rank(x, isNumber) - rank(y, isNumber) || sign * compare(x, y, isNumber) || a - b;
        });
      }
      start = 0;
      draw();
    }
    headings.forEach((heading, index) => {
      const button = heading.querySelector("button");
      if (!button) return;
      button.addEventListener("click", () => {
        // Numbers are asked for greatest first, names from A.
        ascending = sorted === index ? !ascending : !columns[index][0];
        sorted = index;
        headings.forEach((other) => other.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
        arrange();
      });
    });
    if (search) search.addEventListener("input", arrange);
    if (onlyMarked) onlyMarked.addEventListener("change", arrange);
    if (pager) pager.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      start = Math.max(0, start + page * Number(button.dataset.go));
      draw();
    });
    drawRange();
  }

  function hoverChart(figure) {
    const plot = figure.querySelector(".plot");
    const source = figure.querySelector(".chart-data");
    if (!plot || !source) return;
    const { x: [low, high], names } = JSON.parse(source.textContent);
    const { columns, rows } = JSON.parse(figure.querySelector("script.rows").textContent);
    const label = figure.querySelector(".axis-title.x").textContent;
    const cross = plot.appendChild(element("div", "cross"));
    const tip = plot.appendChild(element("div", "tip"));
    tip.setAttribute("role", "status");
    let at = -1;
    function show(index) {
      at = index;
      cross.hidden = tip.hidden = index < 0;
      if (index < 0) return;
      const row = rows[index];
      const place = (row[0] - low) / (high - low);
      cross.style.left = place * 100 + "%";
      tip.style.left = place > 0.5 ? "auto" : `calc(${place * 100}% + .6rem)`;
      tip.style.right = place > 0.5 ? `calc(${(1 - place) * 100}% + .6rem)` : "auto";
      tip.replaceChildren(element("b", "", `${label} ${cellText(row[0], columns[0])}`));
      names.forEach((name, i) => {
        const line = element("p");
        line.append(element("span", "s" + (i % 6), name), element("b", "", cellText(row[i + 1], columns[i + 1])));
        tip.append(line);
      });
    }
    function nearest(x) { // rows are sorted by x
      let first = 0, last = rows.length - 1;
      while (last - first > 1) {
        const middle = (first + last) >> 1;
        if (rows[middle][0] <= x) first = middle; else last = middle;
      }
      return Math.abs(rows[last][0] - x) < Math.abs(rows[first][0] - x) ? last : first;
    }
    plot.addEventListener("pointermove", (event) => {
      const box = plot.getBoundingClientRect();
      show(nearest(low + (event.clientX - box.left) / box.width * (high - low)));
    });
    plot.addEventListener("pointerleave", () => show(-1));
    plot.addEventListener("blur", () => show(-1));
    plot.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
      if (event.key === "Escape") show(-1);
      if (move === undefined) return;
      event.preventDefault();
      show(Math.max(0, Math.min(rows.length - 1, at + move)));
    });
    show(-1);
  }

  async function copy(button) {
    let done = true;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch (error) { // no permission, or no secure context: select and copy as before 2018
      const area = document.body.appendChild(element("textarea", "", button.dataset.copy));
      area.select();
      done = document.execCommand("copy");
      area.remove();
      button.focus();
    }
    const before = button.dataset.label || (button.dataset.label = button.textContent);
    button.textContent = done ? "Copied" : "Select it";
    setTimeout(() => { button.textContent = before; }, 1500);
  }

  function start(part) {
    part.querySelectorAll(".block.table").forEach(interactiveTable);
    part.querySelectorAll(".chart").forEach(hoverChart);
  }
  start(document);
  // A part of a page that another script has put in says so.
  document.addEventListener("jumar:added", (event) => start(event.target));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.copy !== undefined) copy(button);
    if (button.dataset.severity) {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      button.closest(".findings").querySelectorAll(`details[data-severity="${button.dataset.severity}"]`).forEach((group) => { group.hidden = !shown; });
    }
  });
  function openTarget() { // a link to a collapsed section opens it
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") target.open = true;
  }
  addEventListener("hashchange", openTarget);
  openTarget();
  // Paper has no clicks: print what is closed too, and close it again.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach((details) => { details.open = false; }));
})();
