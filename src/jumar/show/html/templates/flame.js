// The flame graph of a profile's page: buttons over merged call paths (jumar/show/pages/profile/flame.py).
(function () {
  if (typeof document === "undefined") return;
  const HIGH = 20, LEAST = 0.08; // pixels of a row, percent of the width below which nothing is drawn

  function number(value) { return Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 }); }

  document.querySelectorAll(".flame").forEach((figure) => {
    const { parent, name, host, device, calls } = JSON.parse(figure.querySelector(".flame-data").textContent);
    const stage = figure.querySelector(".flames"), status = figure.querySelector(".range");
    const children = name.map(() => []), roots = [];
    parent.forEach((above, index) => (above < 0 ? roots : children[above]).push(index));
    let values = host, zoomed = -1, words = [];

    function path(index) {
      const found = [];
      for (let at = index; at >= 0; at = parent[at]) found.unshift(at);
      return found;
    }
    function draw() {
      const fragment = document.createDocumentFragment();
      const line = zoomed < 0 ? [] : path(zoomed);
      let deepest = 0;
      function box(index, left, width, depth, above) {
        deepest = Math.max(deepest, depth + 1);
        const button = document.createElement("button");
        button.type = "button";
        button.className = (words.length && words.every((word) => name[index].toLowerCase().includes(word)) ? "found" : "f" + (name[index].length * 7 + name[index].charCodeAt(0)) % 4) + (above ? " above" : "");
        button.style.cssText = `left:${left}%;width:${width}%;top:${depth * HIGH}px`;
        if (width > 2) button.textContent = name[index];
        button.title = `${name[index]}\nhost ${number(host[index])} ms a step${device[index] ? `, device ${number(device[index])} ms a step` : ""}, ${number(calls[index])} calls a step`;
        button.addEventListener("click", () => { zoomed = index; draw(); });
        fragment.append(button);
      }
      function below(list, left, width, depth, whole) {
        const sorted = [...list].sort((a, b) => values[b] - values[a]);
        for (const index of sorted) {
          const share = whole > 0 ? (values[index] / whole) * width : 0;
          if (share < LEAST) break;
          box(index, left, share, depth, false);
          below(children[index], left, share, depth + 1, values[index]);
          left += share;
        }
      }
      if (zoomed < 0) {
        below(roots, 0, 100, 0, roots.reduce((sum, index) => sum + values[index], 0));
      } else {
        line.forEach((index, depth) => box(index, 0, 100, depth, index !== zoomed));
        below(children[zoomed], 0, 100, line.length, Math.max(values[zoomed], children[zoomed].reduce((sum, index) => sum + values[index], 0)));
        status.textContent = `${name[zoomed]}: ${number(values[zoomed])} ms a step`;
      }
      if (zoomed < 0) status.textContent = "Click a box to look inside.";
      stage.style.height = deepest * HIGH + 2 + "px";
      stage.replaceChildren(fragment);
    }
    figure.querySelector(".tools").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      if (button.dataset.do === "all") zoomed = -1;
      if (button.dataset.by) {
        values = button.dataset.by === "device" ? device : host;
        figure.querySelectorAll("[data-by]").forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
      }
      draw();
    });
    const field = figure.querySelector("input[type=search]");
    field.addEventListener("input", () => { words = field.value.toLowerCase().split(/\s+/).filter(Boolean); draw(); });
    draw();
  });
})();
