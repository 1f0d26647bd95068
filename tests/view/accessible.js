// Accessibility checks in the style of axe, computed in the page. Returns a list of sentences; an empty one is good.
return (() => {
  const found = [];
  const say = (rule, node, why = "") => found.push(`${rule}: ${node ? node.outerHTML.slice(0, 120) : ""} ${why}`.trim());
  const visible = (node) => {
    if (node.closest("[hidden], [aria-hidden=true]")) return false;
    const style = getComputedStyle(node), box = node.getBoundingClientRect();
    return style.visibility !== "hidden" && style.display !== "none" && box.width > 0 && box.height > 0;
  };
  const all = (selector) => [...document.querySelectorAll(selector)].filter(visible);
  const text = (ids) => ids.split(/\s+/).map((id) => { const node = document.getElementById(id); return node ? node.textContent : ""; }).join(" ");
  const name = (node) => {
    if (node.getAttribute("aria-labelledby")) return text(node.getAttribute("aria-labelledby")).trim();
    if (node.getAttribute("aria-label")) return node.getAttribute("aria-label").trim();
    if (node.labels && node.labels.length) return [...node.labels].map((label) => label.textContent).join(" ").trim();
    if (node.matches("input, select, textarea, progress")) return (node.title || "").trim();
    return (node.innerText || node.textContent || node.title || "").trim();
  };

  if (!document.documentElement.lang) say("the page names its language");
  if (!document.title.trim()) say("the page has a title");
  if (document.querySelectorAll("main").length !== 1) say("there is one main landmark");
  if (!document.querySelector("header")) say("there is a banner");
  if (!document.querySelector("footer")) say("there is a footer");
  const navs = all("nav").map(name);
  if (navs.some((one) => !one) || new Set(navs).size !== navs.length) say("navigations have names of their own", null, navs.join("|"));
  const skip = document.querySelector("a.skip");
  if (!skip || !document.querySelector(skip.getAttribute("href"))) say("the first link skips to the content");

  const headings = all("h1, h2, h3, h4, h5, h6");
  if (headings.filter((node) => node.tagName === "H1").length !== 1) say("there is one first heading");
  let level = 0;
  headings.forEach((node) => {
    const own = Number(node.tagName[1]);
    if (own > level + 1) say("headings leave out no level", node, `after ${level}`);
    if (!node.textContent.trim()) say("headings have text", node);
    level = own;
  });

  all("a[href], button, input:not([type=hidden]), select, textarea, summary, progress, [role=tree], [role=treeitem], [role=region], iframe, [role=img]").forEach((node) => {
    if (!name(node) && !(node.tagName === "IFRAME" && node.title)) say("controls have names", node);
  });
  all("img").forEach((node) => { if (!node.hasAttribute("alt")) say("pictures have a text", node); });
  all("table").forEach((node) => {
    if (!node.querySelector("th")) say("tables have headings", node);
    node.querySelectorAll("thead th").forEach((cell) => { if (!cell.hasAttribute("scope")) say("headings of tables have a scope", cell); });
  });
  all(".scroll").forEach((node) => { if (node.scrollWidth > node.clientWidth + 1 && node.tabIndex < 0 && !node.querySelector("a, button, input, summary")) say("what scrolls is reached by keys", node); });
  all("[tabindex]").forEach((node) => { if (node.tabIndex > 0) say("no order of its own for the tab key", node); });
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  new Set(ids.filter((id, index) => ids.indexOf(id) !== index)).forEach((id) => say("ids are unique", null, id));
  ["aria-labelledby", "aria-describedby", "aria-controls", "aria-activedescendant"].forEach((attribute) => {
    document.querySelectorAll(`[${attribute}]`).forEach((node) => node.getAttribute(attribute).split(/\s+/).forEach((id) => {
      if (!document.getElementById(id)) say(`${attribute} names what is there`, node, id);
    }));
  });
  document.querySelectorAll("label[for]").forEach((node) => { if (!document.getElementById(node.htmlFor)) say("labels belong to a field", node); });
  if (document.documentElement.scrollWidth > document.documentElement.clientWidth + 1) say("the page does not scroll sideways", null, `${document.documentElement.scrollWidth} of ${document.documentElement.clientWidth}`);
  all("a[href], button, input[type=checkbox], select").forEach((node) => {
    const box = node.getBoundingClientRect(), inline = getComputedStyle(node).display === "inline";
    if (!inline && (box.width < 16 || box.height < 16)) say("what is clicked has a size", node, `${box.width}x${box.height}`);
  });

  // Contrast of every text against what lies behind it (WCAG 2.2, 1.4.3).
  const colour = (value) => {
    const canvas = colour.canvas || (colour.canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true }));
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = value;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const over = (top, below) => [0, 1, 2].map((part) => top[part] * top[3] + below[part] * (1 - top[3])).concat(1);
  const behind = (node) => {
    const layers = [];
    for (let one = node; one; one = one.parentElement) {
      const layer = colour(getComputedStyle(one).backgroundColor);
      if (layer[3] > 0) layers.push(layer);
      if (layer[3] === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const light = (rgb) => {
    const [red, green, blue] = rgb.map((part) => { const share = part / 255; return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  let num = 0;
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !node || seen.has(node) || /^(script|style|noscript|option)$/i.test(node.tagName) || !visible(node)) continue;
    seen.add(node);
    if (node.closest("[disabled]")) continue;
    const style = getComputedStyle(node), ground = behind(node), ink = over(colour(style.color), ground);
    const [lighter, darker] = [light(ink), light(ground)].sort((one, other) => other - one);
    const ratio = (lighter + 0.05) / (darker + 0.05), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    num += 1;
    if (ratio < (large ? 3 : 4.5)) say("text has contrast", node, `${ratio.toFixed(2)} ${style.color} on ${ground.map(Math.round)}`);
  }
  if (num < 5) say("texts were looked at", null, String(num));
  return found;
})();
