// Pictures of the page: what is on the stage as plain SVG, that as PNG, and all steps as GIF.

const INLINED = ["fill", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "font-size", "font-family", "text-anchor"];
const MARGIN = 28;
const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const colours = new Map();

// Any CSS colour as [#rrggbb, opacity], so that every program can show the picture.
function plainColour(colour) {
  if (!colours.has(colour)) {
    probe.clearRect(0, 0, 1, 1);
    probe.fillStyle = colour;
    probe.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = probe.getImageData(0, 0, 1, 1).data;
    colours.set(colour, ["#" + [r, g, b].map((v) => v.toString(16).padStart(2, "0")).join(""), a / 255]);
  }
  return colours.get(colour);
}

function paint(node, name, colour) {
  const [plain, opacity] = plainColour(colour);
  node.setAttribute(name, plain);
  if (opacity < 1) node.setAttribute(`${name}-opacity`, round(opacity));
}

// A rectangle with four corner radii, as path data.
function rounded(x, y, w, h, radii) {
  const [a, b, c, d] = radii.map((r) => Math.max(0, Math.min(r, w / 2, h / 2)));
  const arc = (r, dx, dy) => `a${r} ${r} 0 0 1 ${dx} ${dy}`;
  return `M${round(x + a)} ${round(y)}H${round(x + w - b)}${arc(b, b, b)}V${round(y + h - c)}${arc(c, -c, c)}H${round(x + d)}${arc(d, -d, -d)}V${round(y + a)}${arc(a, a, -a)}z`;
}

function boxOf(node, style, origin) {
  const r = node.getBoundingClientRect();
  const radii = ["TopLeft", "TopRight", "BottomRight", "BottomLeft"].map((corner) => parseFloat(style[`border${corner}Radius`]) || 0);
  const shape = (grow) => rounded(r.x - origin.x - grow, r.y - origin.y - grow, r.width + 2 * grow, r.height + 2 * grow, radii.map((v) => (v ? v + grow : 0)));
  const parts = [];
  if (plainColour(style.backgroundColor)[1] > 0) {
    const fill = svg("path", { d: shape(0) });
    paint(fill, "fill", style.backgroundColor);
    parts.push(fill);
  }
  const ring = /^(.*?) 0px 0px 0px ([\d.]+)px( inset)?$/.exec(style.boxShadow);
  const border = parseFloat(style.borderTopWidth) && parseFloat(style.borderLeftWidth);
  if (ring || border) {
    const wide = ring ? +ring[2] : border;
    const line = svg("path", { d: shape(ring && !ring[3] ? wide / 2 : -wide / 2), fill: "none", "stroke-width": wide });
    paint(line, "stroke", ring ? ring[1] : style.borderTopColor);
    parts.push(line);
  }
  return parts;
}

// Each word of a text node at the place where the page shows it.
function wordsOf(text, style, origin) {
  probe.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = probe.measureText("x");
  return [...text.data.matchAll(/\S+/g)].flatMap((match) => {
    const range = document.createRange();
    range.setStart(text, match.index);
    range.setEnd(text, match.index + match[0].length);
    const r = range.getBoundingClientRect();
    if (!r.width) return [];
    const node = svg("text", {
      x: round(r.x - origin.x), y: round(r.y - origin.y + (r.height - up - down) / 2 + up), "font-size": style.fontSize,
      "font-weight": style.fontWeight, textLength: round(r.width), lengthAdjust: "spacingAndGlyphs",
    }, match[0]);
    paint(node, "fill", style.color);
    if (style.textDecorationLine === "line-through") node.setAttribute("text-decoration", "line-through");
    return [node];
  });
}

function plotOf(plot, origin) {
  const copy = plot.cloneNode(true);
  const from = [plot, ...plot.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((node, i) => {
    const style = getComputedStyle(node);
    for (const name of ["class", "style", "data-step", "data-run", "role", "aria-label"]) to[i].removeAttribute(name);
    if (!i) return;
    for (const name of INLINED) {
      const value = style.getPropertyValue(name);
      if ((name === "fill" || name === "stroke") && value !== "none") paint(to[i], name, value);
      else if (value && to[i].getAttribute(name) === null) to[i].setAttribute(name, value);
    }
  });
  const r = plot.getBoundingClientRect();
  return svg("g", { transform: `translate(${round(r.x - origin.x)} ${round(r.y - origin.y)})` }, [...copy.childNodes]);
}

function walk(node, origin, out) {
  const style = getComputedStyle(node);
  if (style.display === "none" || style.visibility === "hidden" || style.opacity === "0") return;
  if (node.matches(".plot")) { out.push(plotOf(node, origin)); return; }
  out.push(...boxOf(node, style, origin));
  for (const child of node.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) out.push(...wordsOf(child, style, origin));
    else if (child.nodeType === Node.ELEMENT_NODE) walk(child, origin, out);
  }
}

// The stage as it is now, without the legend.
function picture() {
  const parts = ["source", "panels", "compare"].map($).filter((node) => !node.hidden);
  const rects = parts.map((node) => node.getBoundingClientRect());
  const left = Math.min(...rects.map((r) => r.left)), top = Math.min(...rects.map((r) => r.top));
  const width = Math.ceil(Math.max(...rects.map((r) => r.right)) - left + 2 * MARGIN);
  const height = Math.ceil(Math.max(...rects.map((r) => r.bottom)) - top + 2 * MARGIN);
  const paper = svg("rect", { width, height });
  paint(paper, "fill", getComputedStyle(document.body).backgroundColor);
  const root = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, "font-family": getComputedStyle(document.body).fontFamily }, paper);
  for (const node of parts) {
    const out = [];
    walk(node, { x: left - MARGIN, y: top - MARGIN }, out);
    root.append(...out);
  }
  return { text: new XMLSerializer().serializeToString(root), width, height };
}

async function raster(text, width, height) {
  const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  const image = new Image();
  await new Promise((done, fail) => { image.onload = done; image.onerror = fail; image.src = url; });
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  canvas.getContext("2d", { willReadFrequently: true }).drawImage(image, 0, 0, width, height);
  URL.revokeObjectURL(url);
  return canvas;
}

async function png() {
  const { text, width, height } = picture();
  const canvas = await raster(text, 2 * width, 2 * height);
  return new Promise((done) => canvas.toBlob(done));
}

async function animation(progress) {
  const FRAMES = 60; // of a longer generation, this many moments
  const jump = Math.max(1, Math.ceil(state.steps / FRAMES));
  const moments = [...Array(Math.floor((state.steps - 1) / jump) + 1).keys()].map((i) => i * jump).concat(state.steps);
  const first = picture();
  const width = Math.min(1000, first.width), height = Math.round((first.height * width) / first.width);
  const frames = [];
  for (const t of moments) {
    show(t);
    const canvas = await raster(picture().text, width, height);
    frames.push(canvas.getContext("2d").getImageData(0, 0, width, height).data);
    progress(frames.length / moments.length / 2);
  }
  const palette = commonColours([frames[0], frames[frames.length >> 1], frames[frames.length - 1]]);
  const index = indexer(palette);
  const gif = new Gif(width, height, palette);
  for (const [i, frame] of frames.entries()) {
    gif.add(index(frame), i === frames.length - 1 ? 300 : Math.max(4, Math.round(pace() / 10)));
    progress(0.5 + (i + 1) / frames.length / 2);
    await new Promise((done) => setTimeout(done)); // let the page show how far it is
  }
  return gif.blob();
}

function save(blob, ending) {
  const link = el("a", { download: `anyorder-${state.panels.map((panel) => panel.name).join("-").replace(/[^\w-]+/g, "_").slice(0, 60)}.${ending}` });
  link.href = URL.createObjectURL(blob);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function exportAs(kind) {
  const label = document.querySelector("#export summary"), t = state.t;
  document.body.classList.add("still"); // no motion while the picture is taken
  hideTip();
  try {
    show(t);
    if (kind === "svg") save(new Blob([picture().text], { type: "image/svg+xml" }), kind);
    else if (kind === "png") save(await png(), kind);
    else save(await animation((part) => { label.textContent = `GIF ${Math.round(part * 100)} %`; }), kind);
  } finally {
    label.textContent = "Export";
    document.body.classList.remove("still");
    show(t);
  }
}
