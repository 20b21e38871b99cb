// Pure functions: from the bytes of a page to weights, and from weights to levels and colours. Nothing here touches the page.

// Reads varints: seven bits a byte, the lowest first.
function reader(bytes, at) {
  return {
    at: at,
    next() {
      let value = 0, factor = 1, byte;
      do {
        byte = bytes[this.at++];
        value += (byte & 127) * factor;
        factor *= 128;
      } while (byte > 127);
      return value;
    },
  };
}

// The cells of a head, twice: by row (start, key, weight) and by column (top, query, mass).
function unpackHead(bytes, n, m, high) {
  const flags = bytes[0], from = reader(bytes, 1);
  const top = new Uint32Array(m + 1), start = new Uint32Array(n + 1);
  for (let k = 0; k < m; k++) top[k + 1] = top[k] + from.next();
  const cells = top[m], query = new Uint32Array(cells), mass = new Float32Array(cells);
  for (let k = 0, q = 0; k < m; k++) {
    for (let c = top[k]; c < top[k + 1]; c++) {
      q = c === top[k] ? (from.next() + k) % n : q + 1 + from.next();
      query[c] = q;
      start[q + 1]++;
    }
  }
  for (let c = 0; c < cells; c++) mass[c] = weightOf(bytes[from.at + c], flags & 2, high);
  for (let q = 0; q < n; q++) start[q + 1] += start[q];
  const key = new Uint32Array(cells), weight = new Float32Array(cells), place = start.slice();
  for (let k = 0; k < m; k++) {
    for (let c = top[k]; c < top[k + 1]; c++) {
      const at = place[query[c]]++;
      key[at] = k;
      weight[at] = mass[c];
    }
  }
  const sums = flags & 1 ? Float32Array.from(bytes.subarray(from.at + cells), (b) => weightOf(b, 0, 1)) : null;
  return { n, m, start, key, weight, top, query, mass, sums, loose: Boolean(flags & 4) };
}

// A byte is the square root of a weight; with signs, the eighth bit is the sign.
function weightOf(byte, signed, high) {
  const root = signed ? (byte & 127) / 127 : byte / 255;
  return root * root * high * (signed && byte > 127 ? -1 : 1);
}

// What a query gives (turned: what a key gets): [[token, weight], ...], the largest first.
function linesOf(head, token, turned) {
  const [starts, names, values] = turned ? [head.top, head.query, head.mass] : [head.start, head.key, head.weight];
  const lines = [];
  for (let c = starts[token]; c < starts[token + 1]; c++) lines.push([names[c], values[c]]);
  return lines.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]) || a[0] - b[0]);
}

function weightAt(head, q, k) {
  for (let c = head.start[q]; c < head.start[q + 1]; c++) if (head.key[c] === k) return head.weight[c];
  return 0;
}

// Runs of allowed keys: row q has runs start[q] .. start[q + 1], each from first to last (not included).
function unpackMask(bytes, at, n) {
  const from = reader(bytes, at), start = [0], first = [], last = [];
  for (let q = 0; q < n; q++) {
    const runs = from.next();
    for (let r = 0, k = 0; r < runs; r++) {
      first.push((k += from.next()));
      last.push((k += from.next()));
    }
    start.push(first.length);
  }
  return { start, first, last };
}

function allowedKeys(mask, q) {
  let count = 0;
  for (let r = mask.start[q]; r < mask.start[q + 1]; r++) count += mask.last[r] - mask.first[r];
  return count;
}

function isAllowed(mask, q, k) {
  for (let r = mask.start[q]; r < mask.start[q + 1]; r++) if (k >= mask.first[r] && k < mask.last[r]) return true;
  return false;
}

// The window {q, k, rows, keys} as blocks of at most height x width: the largest weight of each, -1 where all is masked.
// With byRow weights are parts of the largest of their row.
function pooled(head, mask, window, height, width, byRow) {
  const a = Math.ceil(window.rows / height), b = Math.ceil(window.keys / width);
  const rows = Math.ceil(window.rows / a), keys = Math.ceil(window.keys / b), cells = new Float32Array(rows * keys).fill(-1);
  for (let i = 0; i < window.rows; i++) {
    const q = window.q + i, at = Math.floor(i / a) * keys;
    for (let r = mask.start[q]; r < mask.start[q + 1]; r++) {
      const first = Math.max(mask.first[r] - window.k, 0), last = Math.min(mask.last[r] - window.k, window.keys);
      if (first >= last) continue;
      for (let x = Math.floor(first / b); x <= Math.floor((last - 1) / b); x++) cells[at + x] = Math.max(cells[at + x], 0);
    }
    let most = 1;
    if (byRow) {
      most = 1e-9;
      for (let c = head.start[q]; c < head.start[q + 1]; c++) most = Math.max(most, Math.abs(head.weight[c]));
    }
    for (let c = head.start[q]; c < head.start[q + 1]; c++) {
      const j = head.key[c] - window.k;
      if (j < 0 || j >= window.keys) continue;
      const x = at + Math.floor(j / b);
      cells[x] = Math.max(cells[x], Math.abs(head.weight[c]) / most);
    }
  }
  return { cells, rows, keys, a, b };
}

// From a weight between 0 and high to a level between 0 and 1; log shows three decades.
function level(weight, high, scale) {
  const part = high > 0 ? Math.min(Math.abs(weight) / high, 1) : 0;
  if (scale === "sqrt") return Math.sqrt(part);
  if (scale === "log") return Math.max(0, 1 + Math.log10(Math.max(part, 1e-3)) / 3);
  return part;
}

// 256 colours [r, g, b] between the stops, which are words like "440154".
function ramp(stops) {
  const colours = stops.map((stop) => [0, 2, 4].map((at) => parseInt(stop.slice(at, at + 2), 16)));
  return Array.from({ length: 256 }, (_, i) => {
    const x = (i / 255) * (colours.length - 1), low = Math.min(Math.floor(x), colours.length - 2);
    return colours[low].map((value, c) => Math.round(value + (colours[low + 1][c] - value) * (x - low)));
  });
}

// Black or white, whichever can be read on a colour: always above 4.5 to 1.
function inkOn(colour) {
  const [r, g, b] = colour.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
}

function shown(weight) {
  return weight && Math.abs(weight) < 0.001 ? weight.toPrecision(1) : weight.toFixed(3);
}
