// The plots: step against position, log p over steps, and log p so far for all strategies. Each returns an <svg>.

function svg(name, attributes = {}, children = []) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  for (const child of [].concat(children)) node.append(child);
  return node;
}

const round = (x) => Math.round(x * 100) / 100;

// Axes shared by all plots: scales for x and y with their ticks.
function frame(width, height, x, y, label) {
  const left = y.room ?? 30, right = x.room ?? 10, top = 8, bottom = 20;
  const scale = (v, [low, high], from, to) => from + (high === low ? 0.5 : (v - low) / (high - low)) * (to - from);
  const px = (v) => round(scale(v, x.domain, left, width - right));
  const py = (v) => round(scale(v, y.domain, top, height - bottom));
  const root = svg("svg", { class: "plot", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const v of y.ticks) {
    root.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: py(v), y2: py(v) }));
    root.append(svg("text", { class: "tick", x: left - 8, y: py(v) + 3.5, "text-anchor": "end" }, y.format(v)));
  }
  for (const v of x.ticks) root.append(svg("text", { class: "tick", x: px(v), y: height - 4, "text-anchor": "middle" }, x.format(v)));
  return { root, px, py, left, right, top, bottom };
}

const whole = (first, count, parts) => {
  const marks = ticks(1, count, parts).filter((v) => Number.isInteger(v) && v >= 1 && v <= count).map((v) => v - 1);
  return [...new Set([first, ...marks.filter((v) => v === first || v - first >= 2)])];
};
const minus = (v) => String(v).replace("-", "−");

function hue(node, step, steps) {
  node.style.setProperty("--f", round(steps > 1 ? step / (steps - 1) : 0));
  return node;
}

// Dots at (position, step), top to bottom in time, joined in the order of writing.
function orderPlot(cells, steps, width, height) {
  const last = Math.max(cells.length - 1, 1);
  const f = frame(width, height,
    { domain: [-0.3, last + 0.3], ticks: whole(0, cells.length, width / 60), format: (v) => v + 1 },
    { domain: [-0.3, Math.max(steps - 1, 1) + 0.3], ticks: whole(0, steps, height / 38), format: (v) => v + 1 },
    "Order: step (downwards) against position");
  const events = cells.flatMap((cell, i) => cell.events.map((event) => ({ ...event, position: i })));
  events.sort((a, b) => a.step - b.step || a.position - b.position);
  const writes = events.filter((e) => e.kind === "write");
  if (writes.every((e, i) => !i || e.step > writes[i - 1].step)) {
    for (let i = 1; i < writes.length; i++) {
      const [a, b] = [writes[i - 1], writes[i]];
      const line = svg("line", { class: "path", x1: f.px(a.position), y1: f.py(a.step), x2: f.px(b.position), y2: f.py(b.step), "data-step": b.step });
      f.root.append(hue(line, b.step, steps));
    }
  }
  if (cells.length > 60) f.root.classList.add("dense");
  const r = Math.max(1.6, Math.min(4.5, (width - 40) / cells.length / 2.6, (height - 28) / steps / 1.7));
  for (const e of events) {
    if (e.kind === "write" && events.some((o) => o.kind === "erase" && o.step === e.step && o.position === e.position)) continue;
    const [name, size] = e.kind === "write" ? ["dot", r] : ["ring", r - 0.5];
    const mark = svg("circle", { class: name, cx: f.px(e.position), cy: f.py(e.step), r: size, "data-step": e.step });
    f.root.append(hue(mark, e.step, steps));
  }
  return f.root;
}

// One stem a written token, hanging from log p = 0.
function logpPlot(cells, steps, low, width, height) {
  const f = frame(width, height,
    { domain: [-0.5, Math.max(steps - 1, 1) + 0.5], ticks: whole(0, steps, width / 60), format: (v) => v + 1 },
    { domain: [0, low], ticks: ticks(low, 0, height / 40), format: minus },
    "log p of each written token over the steps");
  const r = Math.max(1.6, Math.min(4, (width - 40) / steps / 2.6));
  for (const cell of cells) {
    for (const e of cell.events) {
      if (e.kind !== "write") continue;
      const x = f.px(e.step), y = f.py(Math.max(e.logp, low));
      f.root.append(hue(svg("line", { class: "stem", x1: x, x2: x, y1: f.py(0), y2: y, "data-step": e.step }), e.step, steps));
      f.root.append(hue(svg("circle", { class: "dot", cx: x, cy: y, r, "data-step": e.step }), e.step, steps));
    }
  }
  return f.root;
}

// log p so far: a line for each strategy with its name at the end.
function comparePlot(runs, steps, width, height) {
  const low = Math.min(-0.5, ...runs.flatMap((run) => run.sums));
  const room = Math.min(width * 0.32, 16 + 6.6 * Math.max(...runs.map((run) => run.name.length)));
  const f = frame(width, height,
    { domain: [0, Math.max(steps, 1)], ticks: ticks(0, steps, width / 80).filter(Number.isInteger), format: (v) => v, room },
    { domain: [0, low], ticks: ticks(low, 0, 4), format: minus },
    "log p of each strategy so far, over the steps");
  const labels = runs.map((run, i) => ({ i, y: f.py(run.sums[run.sums.length - 1]) })).sort((a, b) => a.y - b.y);
  labels.forEach((label, k) => { if (k) label.y = Math.max(label.y, labels[k - 1].y + 15); });
  const over = labels.length ? labels[labels.length - 1].y - (height - f.bottom) : 0;
  if (over > 0) labels.forEach((label) => { label.y -= over; });
  runs.forEach((run, i) => {
    const points = run.sums.map((sum, t) => `${f.px(t)},${f.py(sum)}`);
    const end = run.sums.length - 1, x = f.px(end), y = f.py(run.sums[end]);
    const at = labels.find((label) => label.i === i).y;
    const group = svg("g", { class: "run", "data-run": i }, [
      svg("polyline", { class: "faint", points: points.join(" ") }),
      svg("polyline", { class: "line", points: "" }),
      svg("line", { class: "leader", x1: x, y1: y, x2: width - room + 4, y2: at }),
      svg("circle", { class: "head", r: 3.5, cx: f.px(0), cy: f.py(run.sums[0]) }),
      svg("text", { class: "name", x: width - room + 10, y: at + 4 }, run.name),
    ]);
    group.points = points;
    f.root.append(group);
  });
  return f.root;
}

// Show a plot as it is at time t.
function plotAt(plot, t) {
  for (const mark of plot.querySelectorAll("[data-step]")) {
    const step = +mark.dataset.step;
    mark.classList.toggle("future", step >= t);
    mark.classList.toggle("now", step === t - 1);
  }
  for (const run of plot.querySelectorAll(".run")) {
    const done = run.points.slice(0, Math.min(t, run.points.length - 1) + 1);
    run.querySelector(".line").setAttribute("points", done.join(" "));
    const [x, y] = done[done.length - 1].split(",");
    run.querySelector(".head").setAttribute("cx", x);
    run.querySelector(".head").setAttribute("cy", y);
  }
}
