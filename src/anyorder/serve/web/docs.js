// The documentation: every path with its fields, and an example that can be changed and run.

const shell = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

function fieldsOf(one) {
  return el("table", {}, el("tbody", {}, one.fields.map((field) => el("tr", {}, [
    el("td", {}, [el("code", { text: field.name }), field.needed ? el("i", { text: " *", title: "needed" }) : ""]),
    el("td", { text: field.kind }), el("td", { text: field.what }),
  ]))));
}

async function run(one, body, out) {
  const headers = $("key").value ? { Authorization: `Bearer ${$("key").value}` } : {};
  if (body) headers["Content-Type"] = "application/json";
  out.hidden = false;
  out.textContent = "…";
  const path = one.path.replace("{name}", data.model);
  try {
    const response = await fetch(path, { method: one.method, headers, body: body?.value });
    const text = await response.text();
    let shown = text;
    try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not JSON: as it is */ }
    out.textContent = `${response.status}\n${shown}`;
  } catch (error) {
    out.textContent = String(error);
  }
}

function card(one) {
  const out = el("pre", { "aria-live": "polite" }), parts = [];
  out.hidden = true;
  let body = null;
  if (one.example) {
    const text = JSON.stringify(one.example, null, 2);
    body = el("textarea", { rows: text.split("\n").length + 1, spellcheck: "false", "aria-label": "Request" });
    body.value = text;
    parts.push(el("pre", { class: "curl", text: `curl ${location.origin}${one.path} -H 'Content-Type: application/json' -d ${shell(JSON.stringify(one.example))}` }), body);
  } else {
    parts.push(el("pre", { class: "curl", text: `curl ${location.origin}${one.path}` }));
  }
  const go = el("button", { type: "button", class: "run", text: "Run" });
  go.addEventListener("click", () => run(one, body, out));
  parts.push(go, out);
  if (one.fields.length) parts.push(fieldsOf(one));
  return el("details", { class: "path" }, [
    el("summary", {}, [el("b", { text: one.method }), el("code", { text: one.path }), el("span", { text: one.what })]),
    el("div", { class: "inside" }, parts),
  ]);
}

for (const id of ["stage", "export"]) $(id).hidden = true;
document.querySelector(".player").hidden = true;
$("theme").addEventListener("click", switchTheme);
$("about").textContent = data.about;
for (const tag of new Set(data.paths.map((one) => one.tag))) {
  $("paths").append(el("h2", { text: tag }), ...data.paths.filter((one) => one.tag === tag).map(card));
}
