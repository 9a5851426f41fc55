// The playground: a sentence and up to three strategies, written live side by side by the server, in the viewer's panels.

const FIELDS = [ // of a strategy: name, label, kind, default
  ["order", "Order", "text", "easy-first"], ["count", "Count", "text", ""], ["steps", "Steps", "text", ""],
  ["beam", "Beam", "number", ""], ["lengths", "Lengths", "number", "1"], ["temperature", "Temperature", "number", ""],
];
const PLAIN = { count: "1", steps: "L", beam: "1", lengths: "4", temperature: "0" }; // what is meant where nothing is said
const MOST = 3;
const strategies = []; // {node, inputs}: what is asked
let runs = []; // {how, ask, trace, records, panel, abort, error}: what is being written, or was

// ---------------------------------------------------------------- what is asked

function addStrategy(order) {
  if (strategies.length >= MOST) return;
  const one = { inputs: {} };
  const fields = FIELDS.map(([name, label, type, value]) => {
    const input = el("input", { type, value: name === "order" ? order : value, autocomplete: "off", placeholder: PLAIN[name] ?? "" });
    if (type === "number") { input.min = name === "temperature" ? 0 : 1; input.step = name === "temperature" ? 0.1 : 1; }
    if (name === "order") input.setAttribute("list", "orders");
    if (name === "count") input.setAttribute("list", "counts");
    one.inputs[name] = input;
    return el("label", { class: "field" }, [el("span", { text: label }), input]);
  });
  one.inputs.order.addEventListener("input", showFields);
  const drop = el("button", { type: "button", class: "drop", "aria-label": "Remove this strategy", text: "×" });
  drop.addEventListener("click", () => { strategies.splice(strategies.indexOf(one), 1); one.node.remove(); showFields(); counted(); });
  one.node = el("div", { class: "strategy" }, [...fields, drop]);
  strategies.push(one);
  $("strategies").append(one.node);
  showFields();
  counted();
}

function counted() {
  $("add").hidden = strategies.length >= MOST;
  for (const one of strategies) one.node.querySelector(".drop").hidden = strategies.length < 2;
}

// The options that were filled in, as the API reads them.
function howOf(one) {
  const how = {};
  for (const [name, , type] of FIELDS) {
    const value = one.inputs[name].value.trim();
    if (!has(name, one)) continue;
    if (value !== "") how[name] = type === "number" || (name === "steps" && /^\d+$/.test(value)) ? Number(value) : value;
  }
  return how;
}

// Does an option mean something? A text that is written from left to right to its own end has neither lengths, a count
// nor steps; a recipe such as mask-predict(4) has a count and steps of its own, which no beam can follow.
function has(name, one) {
  const order = one.inputs.order.value.trim();
  if (name === "order") return !modelNow().causal;
  if (name === "lengths" && !translates()) return false;
  if (endsItself(order)) return !["lengths", "count", "steps"].includes(name);
  return !(data.families.includes(order.split("(")[0]) && ["count", "steps", "beam"].includes(name));
}

const OWN = "forwards"; // the order of models that contain an autoregressive one
const endsItself = (order) => modelNow().causal || (modelNow().forwards && (order || OWN) === OWN);
const modelNow = () => data.models.find((model) => model.name === $("model").value) ?? data.models[0];
const translates = () => modelNow().languages.length > 0;

function asked(how, canvas) {
  const ask = { model: modelNow().name, text: $("text").value.trim(), ...how };
  if (translates()) [ask.from, ask.to] = $("to").value.split(" ");
  if (canvas) ask.canvas = canvas;
  return ask;
}

function openModel() {
  const { languages } = modelNow();
  const ways = languages.flatMap((a) => languages.filter((b) => b !== a).map((b) => [a, b]));
  $("to").replaceChildren(...ways.map(([a, b]) => el("option", { value: `${a} ${b}`, text: `${a} → ${b}` })));
  $("to-field").hidden = !ways.length;
  $("text").placeholder = ways.length ? "Type a sentence to translate" : "Type a text with [MASK] where words are missing";
  $("orders").replaceChildren(...[...(modelNow().forwards ? [OWN] : []), ...data.orders].map((order) => el("option", { value: order })));
  showFields();
}

// An option that no strategy has is not there; one that another has keeps its place, so that boxes stay below headings.
function showFields() {
  for (const [name] of FIELDS) {
    const nobody = !strategies.some((one) => has(name, one));
    for (const one of strategies) {
      const input = one.inputs[name], field = input.parentNode;
      field.hidden = nobody;
      field.classList.toggle("off", input.disabled = !has(name, one));
    }
  }
}

const openings = () => (modelNow().forwards ? ["easy-first", OWN, "mask-predict(4)"] : ["easy-first", "left2right", "mask-predict(4)"]);

// ---------------------------------------------------------------- the server's events

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const lines = Object.fromEntries(part.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
      yield { name: lines.event, ...JSON.parse(lines.data) };
    }
  }
}

async function post(path, ask, signal) {
  const headers = { "Content-Type": "application/json" };
  if ($("key").value) headers.Authorization = `Bearer ${$("key").value}`;
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(ask), signal });
  if (response.ok) return response;
  if (response.status === 401) $("key-field").hidden = false;
  const { error } = await response.json().catch(() => ({ error: { message: `the server answered ${response.status}` } }));
  throw new Error(error.message);
}

async function run(one) {
  one.abort = new AbortController();
  one.live = true;
  one.trace = null;
  try {
    const response = await post("v1/stream", one.ask, one.abort.signal);
    for await (const event of events(response.body)) hear(one, event);
  } catch (error) {
    if (error.name === "AbortError") return;
    one.error = error.message;
  }
  one.live = false;
  settled();
}

function hear(one, event) {
  if (event.name === "begin" && event.row === 0) {
    one.room = endsItself(one.ask.order) && !one.ask.canvas ? event.canvas : null; // nobody knows yet how much is used
    if (one.room) event.canvas = one.room.slice(0, 1);
    one.trace = { recipe: one.how.order, edit: "replace", canvas: event.canvas, steps: [], pieces: event.pieces, log_length: event.log_length, score: null, forwards: 0, head_rows: 0 };
  } else if (event.name === "step" && event.row === 0) {
    Object.assign(one.trace.pieces, event.pieces);
    one.trace.steps.push(event.step);
    if (one.room) one.trace.canvas = one.room.slice(0, Math.max(one.trace.canvas.length, ...event.step.positions.map((i) => i + 2)));
  } else if (event.name === "end") {
    one.records = event.records;
    const [head, ...steps] = event.records, end = steps.pop();
    one.trace = { ...head, ...end, steps, pieces: event.pieces };
  } else if (event.name === "error") {
    throw new Error(event.error.message);
  }
  if (one.trace) drawLive(one);
}

// ---------------------------------------------------------------- panels while they are written

const nameOf = (how) => Object.entries(how).filter(([name]) => name !== "lengths" || how.lengths !== 1).map(([name, value]) => (name === "order" ? value : `${name} ${value}`)).join(" · ");

function drawLive(one) {
  const focus = one.panel ? one.panel.nodes.indexOf(document.activeElement) : -1;
  const old = one.panel?.node ?? one.place;
  state.steps = Math.max(...runs.filter((r) => r.trace).map((r) => (r.live ? Math.max(r.trace.canvas.length, r.trace.steps.length) : r.trace.steps.length)));
  one.panel = buildPanel(one.trace, nameOf(one.how));
  one.panel.node.classList.add("playable");
  one.panel.plotBox.hidden = one.live;
  one.panel.canvas.addEventListener("click", (e) => { if (!one.live && e.target.closest(".cell")) openEditor(one, one.panel.nodes.indexOf(e.target.closest(".cell"))); });
  if (one.trace.canvas.some((token) => token !== null)) {
    const free = el("button", { type: "button", class: "free", text: "let all words go" });
    free.addEventListener("click", () => again(one, null));
    one.panel.node.querySelector("footer").append(free);
  }
  old.replaceWith(one.panel.node);
  state.panels = runs.filter((r) => r.panel).map((r) => r.panel);
  showPanel(one.panel, one.trace.steps.length);
  if (one.live) {
    one.panel.node.classList.add("live");
    one.panel.now.replaceChildren(el("i", { text: "step " }), el("b", { text: one.trace.steps.length }));
  }
  if (focus >= 0) one.panel.nodes[focus]?.focus();
}

// Everything that was asked for is there (or failed): the player takes over.
function settled() {
  const failed = runs.find((one) => one.error);
  tellProblem(failed ? `${nameOf(failed.how)}: ${failed.error}` : null);
  for (const one of runs) if (one.error && !one.panel) one.place.hidden = true;
  const done = runs.filter((one) => one.trace && !one.live);
  if (runs.some((one) => one.live) || !done.length) return;
  state.steps = Math.max(...done.map((one) => one.trace.steps.length));
  state.panels = done.map((one) => one.panel);
  for (const one of done) {
    one.panel.plotBox.hidden = false;
    one.panel.node.classList.remove("live");
  }
  document.querySelector(".key-erased").hidden = !done.some((one) => one.trace.steps.some((step) => step.erased.length));
  $("scrub").max = state.steps;
  $("download").disabled = !done.every((one) => one.records);
  document.querySelector(".player").hidden = false;
  layOut();
  show(state.steps);
  $("status").textContent = done.map((one) => `${nameOf(one.how)}: ${one.trace.text}`).join("; ");
}

function tellProblem(text) {
  $("problem").hidden = !text;
  $("problem").textContent = text ?? "";
}

function write() {
  if (!$("text").value.trim()) return tellProblem("Type something first.");
  tellProblem(null);
  closeEditor();
  pause();
  hideTip();
  for (const one of runs) one.abort?.abort();
  runs = strategies.map((one) => ({ how: howOf(one), place: el("section", { class: "panel" }) }));
  for (const one of runs) one.ask = asked(one.how);
  $("stage").hidden = false;
  $("stage").className = runs.length > 1 ? "several" : "single";
  $("stage").dataset.count = runs.length;
  $("source").hidden = true;
  $("compare").hidden = true;
  document.querySelector(".player").hidden = true;
  $("download").disabled = true;
  $("panels").replaceChildren(...runs.map((one) => one.place));
  if (innerWidth < 640) $("stage").scrollIntoView({ behavior: calm.matches ? "auto" : "smooth" });
  for (const one of runs) run(one);
}

// ---------------------------------------------------------------- a word is fixed, the rest written anew

let editing = null; // {one, word: cell indices}

function openEditor(one, i) {
  if (modelNow().causal || (!translates() && one.trace.canvas[i] !== null)) return;
  const word = words(one.panel.cells, one.trace.steps.length, one.trace.pieces).find((group) => group.includes(i));
  editing = { one, word };
  pause();
  hideTip();
  $("word").value = word.map((n) => shown(one.panel, one.trace.tokens[n]).text).join("");
  const box = one.panel.nodes[i].getBoundingClientRect(), editor = $("editor");
  editor.hidden = false;
  editor.style.left = `${Math.max(8, Math.min(innerWidth - editor.offsetWidth - 8, box.left))}px`;
  editor.style.top = `${Math.min(innerHeight - editor.offsetHeight - 8, box.bottom + 8)}px`;
  $("word").select();
  $("word").focus();
}

function closeEditor() {
  $("editor").hidden = true;
  editing = null;
}

function fixWord() {
  const { one, word } = editing, text = $("word").value.trim();
  closeEditor();
  if (!text) return;
  const { canvas, tokens } = one.trace;
  const changed = text !== word.map((n) => shown(one.panel, tokens[n]).text).join("");
  const items = tokens.flatMap((token, n) => {
    if (!word.includes(n)) return [canvas[n]];
    return n > word[0] ? (changed ? [] : [token]) : [changed ? { text } : token];
  });
  again(one, items);
}

function again(one, canvas) {
  one.ask = { ...one.ask, canvas: canvas ?? undefined };
  if (modelNow().forwards) one.ask.order = canvas && one.how.order === OWN ? "easy-first" : one.how.order; // around words
  one.error = null;
  document.querySelector(".player").hidden = true;
  run(one);
}

// ---------------------------------------------------------------- the same request elsewhere

const shell = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

function asPython({ model, text, to, from, canvas, ...how }) {
  const options = Object.entries(how).map(([name, value]) => `, ${name}=${JSON.stringify(value)}`).join("");
  const call = to ? `translate(${JSON.stringify(text)}, to=${JSON.stringify(to)}, source=${JSON.stringify(from)}${options}).text` : `fill(${JSON.stringify(text)}${options})[0].text`;
  return `import anyorder\n\nprint(anyorder.load(${JSON.stringify(model)}).${call})`;
}

function asCommand({ model, text, to, from, canvas, ...how }) {
  const options = Object.entries(how).map(([name, value]) => ` --${name.replaceAll("_", "-")} ${shell(String(value))}`).join("");
  return to ? `anyorder translate ${shell(text)} --from ${from} --to ${to} -m ${shell(model)}${options}` : `anyorder fill ${shell(text)} -m ${shell(model)}${options}`;
}

function asCurl(ask) {
  const key = $("key-field").hidden ? "" : " -H 'Authorization: Bearer KEY'";
  return `curl -N ${new URL("v1/stream", location.href.split("#")[0])} -H 'Content-Type: application/json'${key} -d ${shell(JSON.stringify(ask))}`;
}

async function copyAs(kind) {
  const asks = runs.length ? runs.map((one) => one.ask) : strategies.map((one) => asked(howOf(one)));
  const text = asks.map({ python: asPython, cli: asCommand, curl: asCurl }[kind]).join(kind === "python" ? "\n\n" : "\n");
  $("copy").open = false;
  await navigator.clipboard.writeText(text).catch(() => { // no permission: the old way
    const area = document.body.appendChild(el("textarea", {}));
    area.value = text;
    area.select();
    document.execCommand("copy");
    area.remove();
  });
  $("copy").dataset.copied = text;
  $("status").textContent = "Copied.";
}

function downloadTrace() {
  const lines = runs.flatMap((one) => one.records.map((record) => JSON.stringify(record)));
  const link = el("a", { download: "trace.jsonl" });
  link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "application/jsonl" }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// ---------------------------------------------------------------- begin

wire();
$("stage").hidden = true;
document.querySelector(".player").hidden = true;
$("key-field").hidden = !data.keyed;
$("model").replaceChildren(...data.models.map((model) => el("option", { value: model.name, text: model.name })));
$("model").parentNode.hidden = data.models.length < 2;
$("counts").replaceChildren(...["1", "2", "constant", "threshold(0.9)", "entropy-bound(0.1)", "anneal", "whole"].map((value) => el("option", { value })));
$("model").addEventListener("change", openModel);
$("add").addEventListener("click", () => addStrategy(openings()[strategies.length]));
$("composer").addEventListener("submit", (e) => { e.preventDefault(); write(); });
$("text").addEventListener("keydown", (e) => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) { e.preventDefault(); write(); } });
$("word").addEventListener("keydown", (e) => { if (e.key === "Enter") { e.preventDefault(); fixWord(); } else if (e.key === "Escape") closeEditor(); e.stopPropagation(); });
addEventListener("pointerdown", (e) => { if (editing && !e.target.closest("#editor, .cell")) closeEditor(); });
$("download").addEventListener("click", downloadTrace);
for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copyAs(button.dataset.copy));
addStrategy(openings()[0]);
if (!modelNow().causal) addStrategy(openings()[1]);
openModel();
$("text").focus();
