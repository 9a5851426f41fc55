// The viewer: sentences to choose from, and one player that moves all panels of a sentence in lock-step.

const data = JSON.parse($("data").textContent);
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const SPEEDS = [0.5, 1, 2, 4];
let shownGroup = 0;

// ---------------------------------------------------------------- a sentence

function openGroup(index) {
  pause();
  hideTip();
  shownGroup = index;
  const group = data.groups[index];
  const traces = group.traces.map((i) => data.traces[i]);
  state.steps = Math.max(...traces.map((trace) => trace.steps.length));
  $("source").hidden = !group.source;
  $("source-text").textContent = group.source ?? "";
  $("direction").textContent = group.direction ? group.direction.replace("-", " → ") : "source";
  $("stage").className = traces.length > 1 ? "several" : "single";
  $("stage").dataset.count = traces.length;
  $("sentence").value = index;
  $("panels").replaceChildren();
  state.panels = traces.map((trace, i) => buildPanel(trace, group.names[i]));
  $("panels").append(...state.panels.map((panel) => panel.node));
  document.querySelector(".key-erased").hidden = !traces.some((trace) => trace.steps.some((step) => step.erased.length));
  $("scrub").max = state.steps;
  layOut();
}

// Give each canvas the room that it needs at the end, so that nothing below moves while it fills.
function layOut() {
  for (const panel of state.panels) panel.canvas.style.minHeight = "";
  for (const panel of state.panels) {
    showPanel(panel, state.steps);
    panel.canvas.style.minHeight = `${panel.canvas.offsetHeight}px`;
  }
  drawPlots();
}

// ---------------------------------------------------------------- showing a moment

function show(t) {
  state.t = Math.max(0, Math.min(state.steps, t));
  for (const panel of state.panels) showPanel(panel, state.t);
  if (state.compare) plotAt(state.compare, state.t);
  $("scrub").value = state.t;
  $("scrub").setAttribute("aria-valuetext", `step ${state.t} of ${state.steps}`);
  $("fill").style.width = `${(100 * state.t) / Math.max(state.steps, 1)}%`;
  $("fill").style.setProperty("--whole", `${(100 * Math.max(state.steps, 1)) / Math.max(state.t, 1)}%`);
  $("count").replaceChildren(el("b", { text: state.t }), ` / ${state.steps}`);
  if (!state.playing) $("status").textContent = `step ${state.t} of ${state.steps}`;
  if (tip.owner) showTip(...tip.owner);
}

// ---------------------------------------------------------------- playing

function pace() {
  return Math.max(60, Math.min(650, 14000 / Math.max(state.steps, 1))) / state.speed;
}

function play() {
  if (state.t >= state.steps) show(0);
  state.playing = true;
  $("play").setAttribute("aria-label", "Pause");
  document.body.classList.add("playing");
  const tick = () => {
    show(state.t + 1);
    if (state.t >= state.steps) pause();
    else state.timer = setTimeout(tick, pace());
  };
  state.timer = setTimeout(tick, pace());
}

function pause() {
  clearTimeout(state.timer);
  state.playing = false;
  $("play").setAttribute("aria-label", "Play");
  document.body.classList.remove("playing");
}

function go(t) {
  pause();
  show(t);
}

// ---------------------------------------------------------------- keys, buttons

function onKey(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.matches("select, textarea, input:not(#scrub)")) return;
  const onButton = event.target.matches("button, summary");
  const keys = {
    " ": () => (onButton && !event.target.matches(".cell, #play") ? null : (state.playing ? pause() : play(), true)),
    ArrowLeft: () => (go(state.t - 1), true),
    ArrowRight: () => (go(state.t + 1), true),
    Home: () => (go(0), true),
    End: () => (go(state.steps), true),
    t: () => (switchTheme(), true),
    Escape: () => (hideTip(), $("export").open = false, true),
  };
  const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (act && act()) event.preventDefault();
}

function switchTheme() {
  const now = document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
}

function faster() {
  state.speed = SPEEDS[(SPEEDS.indexOf(state.speed) + 1) % SPEEDS.length];
  $("speed").textContent = `${state.speed === 0.5 ? "½" : state.speed}×`;
}

function turn(by) {
  openGroup((shownGroup + by + data.groups.length) % data.groups.length);
  show(state.steps);
}

function wire() {
  const select = $("sentence");
  data.groups.forEach((group, i) => select.append(el("option", { value: i, text: `${i + 1}. ${group.title}` })));
  document.querySelector(".sentences").hidden = data.groups.length < 2;
  select.addEventListener("change", () => turn(+select.value - shownGroup));
  $("sentence-back").addEventListener("click", () => turn(-1));
  $("sentence-on").addEventListener("click", () => turn(1));
  $("play").addEventListener("click", () => (state.playing ? pause() : play()));
  $("back").addEventListener("click", () => go(state.t - 1));
  $("on").addEventListener("click", () => go(state.t + 1));
  $("scrub").addEventListener("input", () => go(+$("scrub").value));
  $("speed").addEventListener("click", faster);
  $("theme").addEventListener("click", switchTheme);
  addEventListener("keydown", onKey);
  addEventListener("scroll", () => { if (tip.owner) showTip(...tip.owner); }, { passive: true });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    layOut();
    show(state.t);
  });
  for (const button of document.querySelectorAll("[data-export]")) {
    button.addEventListener("click", () => { $("export").open = false; pause(); exportAs(button.dataset.export); });
  }
}

function start() {
  wire();
  openGroup(0);
  const asked = /^#t=(\d+)$/.exec(location.hash); // page.html#t=5 opens at step 5, still
  show(asked ? +asked[1] : calm.matches ? state.steps : 0);
  if (!asked && !calm.matches) play();
}
