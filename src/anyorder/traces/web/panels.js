// Panels: a generation as cells and plots, and what a cell has to say. What every page that shows traces is made of.

const $ = (id) => document.getElementById(id);
const state = { t: 0, steps: 0, playing: false, speed: 1, panels: [], compare: null, timer: 0 };

function el(name, attributes = {}, children = []) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") node.textContent = value;
    else if (key === "class") node.className = value;
    else node.setAttribute(key, value);
  }
  node.append(...[].concat(children));
  return node;
}

const shown = (panel, token) => panel.trace.pieces[token] ?? { text: token };
const percent = (logp) => {
  const p = Math.exp(logp) * 100;
  return p >= 99.95 ? "100 %" : p >= 0.1 ? `${p.toFixed(1)} %` : "< 0.1 %";
};
const decimal = (x) => (Number.isFinite(x) ? x.toFixed(2).replace("-", "−") : "−∞");

// ---------------------------------------------------------------- building panels

function buildPanel(trace, name) {
  const cells = unroll(trace);
  const panel = { trace, name, cells, sums: runningScore(trace), nodes: [], plots: [] };
  panel.canvas = el("div", { class: "canvas", role: "group", "aria-label": `${name}: the target` });
  if (cells.length > 60) panel.canvas.classList.add("dense");
  for (const word of words(cells, trace.steps.length, trace.pieces)) {
    panel.canvas.append(el("span", { class: "word" }, word.map((i) => buildCell(panel, i))));
  }
  panel.nodes[0]?.setAttribute("tabindex", "0");
  panel.now = el("span", { class: "running" });
  panel.plotBox = el("div", { class: "plots" }, [
    el("figure", {}, [el("figcaption", {}, [el("b", { text: "Order" }), " step ↓ position →"]), el("div", { class: "room" })]),
    el("figure", {}, [el("figcaption", {}, [el("b", { text: "log p" }), " of each token, by step →"]), el("div", { class: "room" })]),
  ]);
  const facts = [`score ${decimal(trace.score ?? -Infinity)}`, `${trace.forwards} passes`, `${trace.head_rows} head rows`];
  panel.node = el("section", { class: "panel", "aria-label": name }, [
    el("header", {}, [el("h2", { text: name }), panel.now]),
    panel.canvas,
    panel.plotBox,
    el("footer", {}, facts.map((fact) => el("span", { text: fact }))),
  ]);
  return panel;
}

function buildCell(panel, i) {
  const cell = panel.cells[i];
  const texts = [cell.fixed, ...cell.events.map((event) => event.token)].filter((token) => token !== null);
  const widest = texts.map((token) => shown(panel, token).text).reduce((a, b) => (b.length > a.length ? b : a), "");
  const node = el("button", { type: "button", class: "cell", tabindex: "-1" }, [
    el("span", { class: "place", "aria-hidden": "true" }),
    el("span", { class: "box" }, [
      el("span", { class: "size", "aria-hidden": "true", text: widest }),
      el("span", { class: "ink" }),
      el("span", { class: "gone", "aria-hidden": "true" }),
    ]),
    el("span", { class: "bar", "aria-hidden": "true" }, el("i")),
  ]);
  if (cell.fixed !== null && !cell.events.length) node.classList.add("fixed");
  node.addEventListener("pointerenter", (e) => { if (e.pointerType !== "touch") showTip(panel, i); });
  node.addEventListener("pointerleave", (e) => { if (e.pointerType !== "touch") hideTip(); });
  node.addEventListener("focus", () => showTip(panel, i));
  node.addEventListener("blur", hideTip);
  node.addEventListener("keydown", (e) => moveFocus(e, panel, i));
  panel.nodes[i] = node;
  return node;
}

function drawPlots() {
  const low = Math.min(-1, ...state.panels.flatMap((p) => p.cells.flatMap((c) => c.events.map((e) => Math.max(e.logp ?? 0, -12)))));
  for (const panel of state.panels) {
    const rooms = panel.plotBox.querySelectorAll(".room");
    const height = state.panels.length === 1 ? 210 : innerWidth < 640 ? 112 : 150;
    const size = (room) => [Math.max(room.clientWidth, 140), height];
    panel.plots = [
      orderPlot(panel.cells, state.steps, ...size(rooms[0])),
      logpPlot(panel.cells, state.steps, low * 1.05, ...size(rooms[1])),
    ];
    rooms.forEach((room, i) => room.replaceChildren(panel.plots[i]));
  }
  const compare = $("compare");
  compare.hidden = state.panels.length < 2;
  state.compare = null;
  if (!compare.hidden) {
    compare.replaceChildren(el("h2", {}, [el("b", { text: "log p so far" }), " all strategies, by step →"]), el("div", { class: "room" }));
    const room = compare.querySelector(".room");
    state.compare = comparePlot(state.panels, state.steps, Math.max(room.clientWidth, 240), 190);
    room.append(state.compare);
  }
}

// ---------------------------------------------------------------- showing a moment

function showPanel(panel, t) {
  const end = panel.trace.steps.length;
  panel.cells.forEach((cell, i) => showCell(panel, i, t));
  for (const plot of panel.plots) plotAt(plot, t);
  panel.node.classList.toggle("done", t >= end);
  panel.now.replaceChildren(
    el("i", { text: t >= end ? "done in " : "step " }), el("b", { text: Math.min(t, end) }), el("i", { text: t < end ? ` of ${end}` : end === 1 ? " step" : " steps" }),
    el("em", { text: `log p ${decimal(panel.sums[Math.min(t, end)])}` }),
  );
}

function showCell(panel, i, t) {
  const cell = panel.cells[i], node = panel.nodes[i];
  const event = eventAt(cell, t);
  const token = tokenAt(cell, t);
  const [place, box, bar] = node.children;
  const fresh = event !== null && event.step === t - 1;
  const look = `${existsAt(cell, t)} ${event ? cell.events.indexOf(event) : -1} ${fresh}`;
  if (node.dataset.look === look) return; // nothing changed: most cells, most of the time
  node.dataset.look = look;
  const piece = token === null ? { text: "" } : shown(panel, token);
  node.hidden = !existsAt(cell, t);
  node.parentNode.hidden = ![...node.parentNode.children].some((part) => !part.hidden);
  node.classList.toggle("filled", token !== null);
  node.classList.toggle("erased", event !== null && event.kind === "erase");
  node.classList.toggle("now", fresh);
  node.classList.toggle("special", Boolean(piece.special));
  if (event) hue(node, event.step, state.steps);
  place.textContent = event ? (event.kind === "write" ? event.step + 1 : "↺") : "";
  box.children[1].textContent = piece.text;
  box.children[2].textContent = event && event.kind === "erase" && fresh && event.token !== null ? shown(panel, event.token).text : "";
  bar.firstChild.style.width = event && event.kind === "write" ? `${(Math.exp(event.logp) * 100).toFixed(1)}%` : "0";
  node.setAttribute("aria-label", describe(panel, token, event, i));
}

function describe(panel, token, event, i) {
  const at = `position ${i + 1}`;
  if (token === null) return event ? `taken back at step ${event.step + 1}, ${at}` : `not written yet, ${at}`;
  const text = shown(panel, token).text;
  return event ? `${text}, ${at}, written at step ${event.step + 1}, probability ${percent(event.logp)}` : `${text}, ${at}, given`;
}

// ---------------------------------------------------------------- what a token has to say

const tip = { node: $("tip"), owner: null };

function showTip(panel, i) {
  const cell = panel.cells[i];
  const event = eventAt(cell, state.t);
  const token = tokenAt(cell, state.t);
  const head = token === null ? (event ? "taken back" : "not written yet") : shown(panel, token).text;
  const facts = event ? `step ${event.step + 1} · position ${i + 1}` : `position ${i + 1}${token === null ? "" : " · given"}`;
  const parts = [el("p", { class: `tip-head${token === null ? " none" : ""}` }, [el("b", { text: head }), el("span", { text: facts })])];
  if (event && event.kind === "write") parts.push(choices(panel, event));
  const past = cell.events.filter((e) => e.step < state.t && e !== event);
  if (past.length) parts.push(el("p", { class: "past" }, past.map((e) => el("span", { text: pastLine(panel, e) }))));
  tip.node.replaceChildren(...parts);
  hue(tip.node, event ? event.step : 0, state.steps);
  tip.node.hidden = false;
  tip.owner = [panel, i];
  placeTip(panel.nodes[i].getBoundingClientRect());
}

function pastLine(panel, event) {
  const what = event.token === null ? "a token" : `“${shown(panel, event.token).text}”`;
  return event.kind === "write" ? `step ${event.step + 1}: ${what} ${percent(event.logp)}` : `step ${event.step + 1}: took ${what} back`;
}

// The written symbol and its rivals as bars; the written one is marked.
function choices(panel, event) {
  const rows = (event.alternatives ?? []).map(([token, logp]) => [token, logp ?? NEGLIGIBLE]);
  if (!rows.some(([token]) => token === event.token)) rows.unshift([event.token, event.logp]);
  return el("ol", {}, rows.map(([token, logp]) => {
    const bar = el("i");
    bar.style.width = `${(Math.exp(logp) * 100).toFixed(1)}%`;
    return el("li", token === event.token ? { class: "chosen" } : {}, [
      el("span", { class: "rival", text: shown(panel, token).text }), el("span", { class: "meter" }, bar), el("span", { class: "p", text: percent(logp) }),
    ]);
  }));
}

function placeTip(box) {
  const { offsetWidth: width, offsetHeight: height } = tip.node;
  const x = Math.max(8, Math.min(innerWidth - width - 8, box.left + box.width / 2 - width / 2));
  const floor = document.querySelector(".player").getBoundingClientRect().top - 8;
  const below = box.bottom + 8 + height <= floor;
  tip.node.style.left = `${x}px`;
  tip.node.style.top = `${below ? box.bottom + 8 : Math.max(8, box.top - height - 8)}px`;
}

function hideTip() {
  tip.node.hidden = true;
  tip.owner = null;
}

// ---------------------------------------------------------------- keys within a canvas

// Within a canvas the arrow keys walk the tokens; Enter goes to the step at which one was written.
function moveFocus(event, panel, i) {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!by || event.altKey || event.ctrlKey || event.metaKey) return;
  let to = i + by;
  while (panel.nodes[to] && panel.nodes[to].hidden) to += by;
  if (panel.nodes[to]) {
    panel.nodes[i].setAttribute("tabindex", "-1");
    panel.nodes[to].setAttribute("tabindex", "0");
    panel.nodes[to].focus();
  }
  event.preventDefault();
  event.stopPropagation();
}
