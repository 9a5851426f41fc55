// A small GIF89a writer: one global palette, frames that hold only the rectangle that changed.

// The most frequent colours of some RGBA pixels, at most 256 of them.
function commonColours(images) {
  const counts = new Map();
  for (const pixels of images) {
    for (let i = 0; i < pixels.length; i += 4) {
      const key = (pixels[i] << 16) | (pixels[i + 1] << 8) | pixels[i + 2];
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
  }
  const common = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 256);
  return common.map(([key]) => [key >> 16, (key >> 8) & 255, key & 255]);
}

// A function from RGBA pixels to palette indices; each colour is looked up once.
function indexer(palette) {
  const known = new Map();
  const nearest = (r, g, b) => {
    let best = 0, least = Infinity;
    palette.forEach(([pr, pg, pb], i) => {
      const d = (pr - r) ** 2 + (pg - g) ** 2 + (pb - b) ** 2;
      if (d < least) [best, least] = [i, d];
    });
    return best;
  };
  return (pixels) => {
    const indices = new Uint8Array(pixels.length / 4);
    for (let i = 0, j = 0; i < pixels.length; i += 4, j++) {
      const key = (pixels[i] << 16) | (pixels[i + 1] << 8) | pixels[i + 2];
      let index = known.get(key);
      if (index === undefined) known.set(key, (index = nearest(pixels[i], pixels[i + 1], pixels[i + 2])));
      indices[j] = index;
    }
    return indices;
  };
}

class Gif {
  constructor(width, height, palette) {
    this.width = width;
    this.height = height;
    this.before = null;
    this.parts = [];
    const table = new Uint8Array(768);
    palette.forEach((rgb, i) => table.set(rgb, i * 3));
    this.put("GIF89a", [...this.word(width), ...this.word(height), 0xf7, 0, 0], table);
    this.put([0x21, 0xff, 11], "NETSCAPE2.0", [3, 1, 0, 0, 0]); // for ever
  }

  word(n) { return [n & 255, n >> 8]; }

  put(...parts) {
    for (const part of parts) this.parts.push(typeof part === "string" ? new TextEncoder().encode(part) : Uint8Array.from(part));
  }

  // delay in hundredths of a second
  add(indices, delay) {
    const [x, y, w, h] = this.changed(indices);
    const cut = new Uint8Array(w * h);
    for (let row = 0; row < h; row++) cut.set(indices.subarray((y + row) * this.width + x, (y + row) * this.width + x + w), row * w);
    this.put([0x21, 0xf9, 4, 4, ...this.word(delay), 0, 0], [0x2c, ...[x, y, w, h].flatMap(this.word), 0, 8]);
    const code = lzw(cut);
    for (let i = 0; i < code.length; i += 255) this.put([Math.min(255, code.length - i)], code.subarray(i, i + 255));
    this.put([0]);
    this.before = indices;
  }

  // The smallest rectangle that holds all pixels that differ from the frame before.
  changed(indices) {
    if (!this.before) return [0, 0, this.width, this.height];
    let [left, top, right, bottom] = [this.width, this.height, 0, 0];
    for (let i = 0; i < indices.length; i++) {
      if (indices[i] === this.before[i]) continue;
      const x = i % this.width, y = (i - x) / this.width;
      left = Math.min(left, x); right = Math.max(right, x);
      top = Math.min(top, y); bottom = Math.max(bottom, y);
    }
    return left > right ? [0, 0, 1, 1] : [left, top, right - left + 1, bottom - top + 1];
  }

  blob() {
    this.put([0x3b]);
    return new Blob(this.parts, { type: "image/gif" });
  }
}

// GIF's LZW at eight bits a pixel: codes of 9 to 12 bits, least significant bit first.
function lzw(indices) {
  const clear = 256, end = 257, out = [];
  let size = 9, next = 258, codes = new Map(), hold = 0, held = 0;
  const emit = (code) => {
    hold |= code << held;
    for (held += size; held >= 8; held -= 8, hold >>>= 8) out.push(hold & 255);
  };
  emit(clear);
  let prefix = indices[0];
  for (let i = 1; i < indices.length; i++) {
    const key = (prefix << 8) | indices[i];
    const code = codes.get(key);
    if (code !== undefined) { prefix = code; continue; }
    emit(prefix);
    if (next < 4096) {
      if (next === 1 << size) size++;
      codes.set(key, next++);
    } else {
      emit(clear);
      [size, next, codes] = [9, 258, new Map()];
    }
    prefix = indices[i];
  }
  emit(prefix);
  if (next === 1 << size && size < 12) size++;
  emit(end);
  if (held) out.push(hold & 255);
  return Uint8Array.from(out);
}
