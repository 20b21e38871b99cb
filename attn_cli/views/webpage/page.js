// The page: reads its data, draws it, and follows keys, mouse and address. All text goes through textContent.

const DARK = ["440154", "472d7b", "3b528b", "2c728e", "21908c", "28ae80", "5dc963", "abdc32", "fde725"];
const LIGHT = ["ffffff", "e3e9f6", "bfd3ec", "8fb8de", "5b96cb", "3872b4", "2a4f96", "23306f", "180d3f"];
const FACE = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace";
const LINES = 12;
const LISTED = 5; // heads of a family
const FIRST_HEAD = 1;
const SLANT = 44, OVER = 14; // pixels: how far slanted labels, and upright ones, stand over the right edge
const KEYS = [
  ["arrows", "the cell, token or head beside; with shift ten further"], ["Enter, click", "hold what the cursor is on"], ["Esc", "let go"],
  ["[ ]", "head before, after"], ["{ }", "layer before, after"], ["v", "transpose: who attends to this token?"],
  ["/", "find a token: word, word#2, number, + for generated ones"], ["n N", "the next, the one before"], ["< >", "the row that generated a token: before, after"],
  ["+ - 0", "zoom in, out, whole"], ["s", "how weights become colours"], ["t", "pictures of heads, or their numbers"], ["?", "these keys"],
];
const $ = (id) => document.getElementById(id);
const lines = $("data").textContent.split("\n"); // all but the weights; then a line for each head
const look = { layer: 0, head: 0, q: 0, k: 0, turned: false, held: false, window: null };
let page, blob, streams, cells, map, grid, colours, inks, mark, tokens, painted, opening = 0, matches = [];

const layer = () => page.layers[look.layer];
const label = (text, at) => `${page.texts[text].numbers?.[at] ?? at} ${page.texts[text].flags[at] & 2 ? "+" : ""}${page.texts[text].tokens[at]}`;
const queryName = (q) => label(layer().queries, q);
const keyName = (k) => label(layer().keys, k);
const layerName = (at) => `layer ${at.layer}${at.call ? ` run ${at.call + 1}` : ""}`;
const many = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
const isDark = () => document.documentElement.dataset.theme === "dark";
const scale = () => $("scale").value;
const css = (colour) => `rgb(${colour})`;
const colourOf = (part) => colours[Math.round(part * 255)];
const masked = () => (isDark() ? [43, 45, 54] : [233, 233, 238]);

async function inflated(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// What the static screen says, where a browser can't unpack the data.
function withoutStreams() {
  const screen = document.createElement("pre"), note = document.createElement("p");
  note.textContent = "This browser is too old for the page (Chrome 80, Safari 16.4, Firefox 113 or later open it); this is the screen of attn inspect.";
  screen.id = "static";
  screen.textContent = new DOMParser().parseFromString(document.querySelector("noscript").textContent, "text/html").body.textContent;
  document.body.prepend(note, screen);
}

async function start() {
  if (typeof DecompressionStream === "undefined") return withoutStreams();
  blob = await inflated(lines[0]);
  const length = new DataView(blob.buffer).getUint32(0, true);
  page = JSON.parse(new TextDecoder().decode(blob.subarray(4, 4 + length)));
  blob = blob.subarray(4 + length);
  let line = FIRST_HEAD;
  for (const each of page.layers) {
    each.first = line;
    line += each.heads.length;
  }
  streams = [...new Set(page.layers.map((each) => each.stream))];
  $("about").textContent = page.about.join(" · ");
  const absent = page.absent ? ` ${many(page.absent, "head")} had no room in it or in memory, and are pictures alone.` : "";
  $("note").textContent = `In this page: ${page.rows}, ${Math.round(page.kept * 100)} % of all weight.${absent} It holds the text ${page.picture ? "and the image " : ""}that it was made from: whoever gets the page can read it.`;
  fill($("stream"), streams.map((name) => [name, name]));
  $("streams").hidden = streams.length < 2;
  fill($("by"), [...(page.work.heads.length ? [["kinds", "what they do"]] : []), ["", "pictures"], ...page.statistics.map((each) => [each.name, each.heading])]);
  listWork();
  for (const [keys, meaning] of KEYS) addRow($("bindings"), keys, meaning);
  [look.layer, look.head] = page.start;
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches);
  $("page").hidden = false;
  listen();
  if (!(await follow(location.hash))) await open(look.layer, look.head, ...(page.work.heads[0]?.cell ?? []));
  document.documentElement.dataset.ready = "yes";
  performance.mark("ready");
}

function fill(select, options) {
  select.replaceChildren(...options.map(([value, text]) => new Option(text, value)));
}

function addRow(table, ...texts) {
  const row = table.insertRow();
  for (const text of texts) row.insertCell().textContent = text;
  return row;
}

// Opens a head: its weights are unpacked, its texts laid out, everything drawn. The cursor stays where it can.
async function open(at, head, q, k) {
  const mine = ++opening, data = lines[page.layers[at].first + head];
  const bytes = data ? await inflated(data) : null;
  if (mine !== opening) return;
  const before = page.layers[look.layer], now = page.layers[at];
  Object.assign(look, { layer: at, head });
  const n = page.texts[now.queries].tokens.length, m = page.texts[now.keys].tokens.length;
  const high = page.high[now.first - FIRST_HEAD + head] ?? 1;
  map = unpackMask(blob, now.mask, n);
  cells = bytes ? unpackHead(bytes, n, m, high) : unpackHead(new Uint8Array(m + 1), n, m, 1);
  cells.high = cells.weight.reduce((most, weight) => Math.max(most, Math.abs(weight)), 0) || 1;
  cells.absent = !bytes;
  if (!tokens || before.queries !== now.queries || before.keys !== now.keys) {
    look.window = { q: 0, k: 0, rows: n, keys: m };
    layOut();
    look.q = q ?? lastWord(now.queries);
  }
  look.q = Math.min(q ?? (k === undefined ? look.q : linesOf(cells, Math.min(k, m - 1), true)[0]?.[0] ?? look.q), n - 1);
  pickers();
  sayWork();
  drawHeads();
  drawMap();
  put(look.q, Math.min(k ?? heaviest(look.q), m - 1), true, true);
}

// The last token that is a word.
function lastWord(number) {
  const { tokens: words, flags } = page.texts[number];
  for (let at = words.length - 1; at >= 0; at--) if (!(flags[at] & 1) && /\p{L}/u.test(words[at])) return at;
  return words.length - 1;
}

function pickers() {
  const of = layer(), every = page.layers.map((each, at) => [each, at]).filter(([each]) => each.stream === of.stream);
  $("stream").value = of.stream;
  fill($("layer"), every.map(([each, at]) => [at, layerName(each).slice(6)]));
  $("layer").value = look.layer;
  fill($("head"), of.heads.map((name, at) => [at, `${name}${outOf(look.layer, at) ? ` ${outOf(look.layer, at).family} ${outOf(look.layer, at).weight.toFixed(2)}` : ""}`]));
  $("head").value = look.head;
}

// ---- what heads do

const outOf = (at, head) => page.work.heads.find((out) => out.layer === at && out.head === head);
const shortName = (at, head) => `${streams.length > 1 ? `${page.layers[at].stream} ` : ""}${page.layers[at].layer}.${page.layers[at].heads[head]}`;

// The families of heads that stand out, each head a button with a bar as long as its weight.
function listWork() {
  const all = page.layers.reduce((sum, each) => sum + each.heads.length, 0);
  $("others").textContent = page.work.heads.length ? `${page.work.heads.length} of ${many(all, "head")} stand out. All: ${page.work.counts.join(" · ")}` : "No head stands out on this text.";
  $("families").replaceChildren(...page.work.families.map((family) => {
    const box = document.createElement("div"), heading = document.createElement("h3"), name = document.createElement("b"), list = document.createElement("ul");
    name.textContent = `${family.name} ${family.heads.length}`;
    heading.append(name, ` ${family.does}`);
    for (const index of family.heads) page.work.heads[index].family = family.name;
    list.append(...family.heads.slice(0, LISTED).map((index) => workLine(page.work.heads[index])));
    box.append(heading, list);
    return box;
  }));
}

function workLine(out) {
  const item = document.createElement("li"), button = document.createElement("button"), bar = document.createElement("i");
  for (const text of [shortName(out.layer, out.head), out.weight.toFixed(2)]) button.append(Object.assign(document.createElement("span"), { textContent: text }));
  bar.style.width = `${100 * Math.min(out.weight, 1)}%`;
  button.append(bar);
  button.addEventListener("click", () => openOut(out));
  button.out = out;
  item.append(button);
  return item;
}

const openOut = (out) => open(out.layer, out.head, ...(out.cell ?? []));

// The head that stands out before or after the one that is open; where none does, the head beside.
function stepOut(by) {
  const outs = page.work.heads, now = outs.findIndex((out) => out.layer === look.layer && out.head === look.head);
  return outs.length ? openOut(outs[(now + by + outs.length) % outs.length]) : step("head", by);
}

function sayWork() {
  const of = layer(), out = outOf(look.layer, look.head), does = page.work.does[look.layer][look.head];
  $("title").textContent = `${page.model} · ${layerName(of)} head ${of.heads[look.head]}${streams.length > 1 ? ` · ${of.stream}` : ""}`;
  $("does").textContent = out ? out.words : does;
  for (const button of $("families").querySelectorAll("button")) button.setAttribute("aria-current", button.out === out);
}

const heaviest = (q) => linesOf(cells, q, false)[0]?.[0] ?? map.first[map.start[q]] ?? 0;

// ---- the heads

function headCells() {
  const rows = page.layers.map((_, at) => at).filter((at) => page.layers[at].stream === layer().stream);
  const columns = Math.max(...rows.map((at) => page.layers[at].heads.length));
  const width = $("heads").parentNode.clientWidth, edge = 22;
  return { rows, columns, edge, side: Math.max(6, Math.min(60, Math.floor((width - edge) / columns))) };
}

function drawHeads() {
  const { rows, columns, edge, side } = headCells(), by = $("by").value;
  const draw = sized($("heads"), edge + columns * side, edge + rows.length * side);
  sized($("chosen"), edge + columns * side, edge + rows.length * side);
  const values = rows.flatMap((at) => page.layers[at].numbers[by] ?? []).filter((value) => value !== null);
  const low = Math.min(0, ...values), high = Math.max(...values);
  $("range").textContent = by === "kinds" ? "a letter is a kind, its colour the weight" : by ? `${low.toFixed(2)} to ${high.toFixed(2)}` : "";
  draw.font = `10px ${FACE}`;
  draw.fillStyle = getComputedStyle($("about")).color;
  draw.textBaseline = "middle";
  const every = Math.ceil(11 / side);
  rows.forEach((at, y) => y % every || write(draw, page.layers[at].layer, edge - 4, edge + (y + 0.5) * side, "right"));
  const wide = Math.ceil(16 / side);
  page.layers[rows[0]].heads.forEach((name, x) => x % wide || write(draw, name, edge + (x + 0.5) * side, edge - 8, "center"));
  rows.forEach((at, y) => page.layers[at].heads.forEach((_, x) => {
    const left = edge + x * side, top = edge + y * side;
    if (by === "kinds") return kindCell(draw, at, x, left, top, side);
    if (!by) return picture(draw, page.layers[at], x, left, top, side - 2);
    const value = page.layers[at].numbers[by]?.[x] ?? null, colour = value === null ? masked() : colourOf(high > low ? (value - low) / (high - low) : 0);
    draw.fillStyle = css(colour);
    draw.fillRect(left, top, side - 1, side - 1);
    draw.fillStyle = inkOn(colour);
    if (side >= 30 && value !== null) write(draw, value.toFixed(value < 10 ? 2 : 0), left + side / 2, top + side / 2, "center");
  }));
  $("by").parentElement.dataset.by = $("by").selectedOptions[0].text; // what paper shows in place of a menu
  $("heads").setAttribute("aria-label", `All heads, ${$("by").selectedOptions[0].text}: rows are layers, columns heads`);
  choose(look.layer, look.head);
  const box = $("all"), y = edge + rows.indexOf(look.layer) * side;
  if (y < box.scrollTop || y + side > box.scrollTop + box.clientHeight) box.scrollTop = y - box.clientHeight / 2;
}

// The colour of a head's weight where it stands out.
function kindCell(draw, at, head, left, top, side) {
  const out = outOf(at, head), colour = out && colourOf(Math.min(out.weight, 1));
  if (!out) return;
  draw.fillStyle = css(colour);
  draw.fillRect(left, top, side - 1, side - 1);
  draw.fillStyle = inkOn(colour);
  if (side >= 44) write(draw, out.weight.toFixed(2), left + side / 2, top + side / 2, "center");
}

function picture(draw, of, head, left, top, side) {
  const [place, rows, keys] = of.thumbnail;
  if (!rows || !keys) return;
  const from = place + head * rows * keys;
  draw.drawImage(bitmap(keys, rows, (i) => blob[from + i]), left, top, side, side);
}

// An image of cells, each of which is a shade from 0 to 254, or 255 where masked.
function bitmap(width, height, shade) {
  const canvas = document.createElement("canvas"), pixels = new Uint32Array(width * height);
  for (let i = 0; i < pixels.length; i++) pixels[i] = inks[shade(i)];
  canvas.width = width;
  canvas.height = height;
  canvas.getContext("2d").putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), width, height), 0, 0);
  return canvas;
}

// Frames the open head, and another that the mouse is on, and says what they are.
function choose(at, head) {
  const { rows, edge, side } = headCells(), draw = $("chosen").getContext("2d"), of = page.layers[at];
  draw.clearRect(0, 0, 1e4, 1e4);
  for (const [row, column, width] of [[look.layer, look.head, 3], [at, head, 1]]) {
    draw.lineWidth = width;
    draw.strokeStyle = mark;
    draw.strokeRect(edge + column * side - 1, edge + rows.indexOf(row) * side - 1, side, side);
  }
  const numbers = page.statistics.map((each) => [each, of.numbers[each.name]?.[head] ?? null]).filter(([, value]) => value !== null);
  $("headline").textContent = [`${layerName(of)} head ${of.heads[head]}`, ...numbers.map(([each, value]) => `${each.heading} ${value.toFixed(each.digits)}`)].join(" · ");
}

function headAt(event) {
  const { rows, edge, side } = headCells(), at = rows[Math.floor((event.offsetY - edge) / side)], head = Math.floor((event.offsetX - edge) / side);
  return at !== undefined && head >= 0 && head < page.layers[at].heads.length ? [at, head] : null;
}

// ---- the matrix

function sized(canvas, width, height) {
  const ratio = devicePixelRatio || 1, draw = canvas.getContext("2d");
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  draw.scale(ratio, ratio);
  draw.imageSmoothingEnabled = false;
  return draw;
}

function write(draw, text, x, y, align) {
  draw.textAlign = align;
  draw.fillText(text, x, y);
}

const short = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

function drawMap() {
  const of = layer(), window = look.window, wide = $("frame").clientWidth, few = Math.max(window.rows, window.keys) <= 64 && wide / window.keys > 9, over = few ? SLANT : OVER, width = wide - over;
  const left = few ? Math.min(102, width / 4) : 28, top = few ? 78 : 20, room = width - left - 2;
  const tall = Math.min(room, Math.max(320, innerHeight - 190));
  grid = cells.absent ? fromPicture(of) : pooled(cells, map, window, Math.floor(tall), Math.floor(room), scale() === "row");
  const side = few ? Math.min(room / grid.keys, tall / grid.rows, 44) : 0;
  Object.assign(grid, { left, top, x: side || room / grid.keys, y: side || Math.min(tall / grid.rows, (room / grid.keys) * 1.0) });
  const draw = sized($("map"), left + grid.keys * grid.x + over, top + grid.rows * grid.y + 1);
  sized($("cursor"), left + grid.keys * grid.x + 1, top + grid.rows * grid.y + 1);
  const high = scale() === "row" ? 1 : cells.high, how = scale(), shade = (value) => (value < 0 ? 255 : Math.round(254 * level(value, high, how)));
  draw.drawImage(bitmap(grid.keys, grid.rows, (i) => shade(grid.cells[i])), left, top, grid.keys * grid.x, grid.rows * grid.y);
  labels(draw, few, shade);
  $("name").textContent = `${layerName(of)} · head ${of.heads[look.head]}${streams.length > 1 ? ` · ${of.stream}` : ""}`;
  const block = grid.a * grid.b > 1 ? ` · max over ${grid.a} x ${grid.b}` : "";
  $("size").textContent = cells.absent ? "a picture alone: the rows of this head had no room (attn inspect --page-size, or -H)" :
    `${window.rows} x ${window.keys}, rows are queries · ${of.rule}${block}`;
  $("high").textContent = scale() === "row" ? "largest of the row" : `${shown(cells.high)} · ${scale()}`;
  $("masked").textContent = map.first.length === map.start.length - 1 && map.last.every((last, r) => last - map.first[r] === cells.m) ? "" : "masked";
  $("mask").hidden = !$("masked").textContent;
  $("ramp").style.background = `linear-gradient(90deg, ${[0, 32, 64, 96, 128, 160, 192, 224, 255].map((at) => css(colours[at]))})`;
}

// Blocks from the thumbnail, for a head without rows.
function fromPicture(of) {
  const [place, rows, keys] = of.thumbnail, values = new Float32Array(rows * keys);
  for (let i = 0; i < values.length; i++) {
    const shade = blob[place + look.head * rows * keys + i];
    values[i] = shade === 255 ? -1 : (shade / 254) ** 2;
  }
  look.window = { q: 0, k: 0, rows: cells.n, keys: cells.m };
  return { cells: values, rows, keys, a: Math.ceil(cells.n / rows), b: Math.ceil(cells.m / keys) };
}

function labels(draw, few, shade) {
  const { q, k } = look.window, fore = getComputedStyle(document.body).color;
  draw.font = `${few ? Math.min(12, grid.y) : 10}px ${FACE}`;
  draw.fillStyle = fore;
  draw.textBaseline = "middle";
  draw.direction = "ltr";
  const step = (size) => (few ? 1 : Math.ceil(42 / size));
  for (let i = 0; i < grid.rows; i += step(grid.y)) {
    const name = few ? short(queryName(q + i * grid.a), 13) : label(layer().queries, q + i * grid.a).split(" ")[0];
    write(draw, name, grid.left - 4, grid.top + (i + 0.5) * grid.y, "right");
  }
  for (let j = 0; j < grid.keys; j += step(grid.x)) {
    draw.save();
    draw.translate(grid.left + (j + 0.5) * grid.x, grid.top - 5);
    if (few) draw.rotate(-Math.PI / 3);
    write(draw, few ? short(keyName(k + j * grid.b), 11) : label(layer().keys, k + j * grid.b).split(" ")[0], 0, few ? 0 : -5, few ? "left" : "center");
    draw.restore();
  }
  if (grid.x < 25 || grid.a * grid.b > 1) return;
  draw.font = `10px ${FACE}`;
  grid.cells.forEach((value, at) => {
    if (value < 0.005) return;
    const i = Math.floor(at / grid.keys), j = at % grid.keys, real = weightAt(cells, q + i, k + j);
    draw.fillStyle = inkOn(colours[shade(value)]);
    write(draw, real.toFixed(2).replace("0.", "."), grid.left + (j + 0.5) * grid.x, grid.top + (i + 0.5) * grid.y, "center");
  });
}

// The cell under the mouse; of a block the heaviest.
function cellAt(event) {
  const i = Math.floor((event.offsetY - grid.top) / grid.y), j = Math.floor((event.offsetX - grid.left) / grid.x);
  if (i < 0 || j < 0 || i >= grid.rows || j >= grid.keys) return null;
  const q = look.window.q + i * grid.a, k = look.window.k + j * grid.b;
  let best = [Math.min(q, cells.n - 1), Math.min(k, cells.m - 1)], most = 0;
  for (let row = q; row < Math.min(q + grid.a, cells.n); row++) {
    for (let c = cells.start[row]; c < cells.start[row + 1]; c++) {
      if (cells.key[c] >= k && cells.key[c] < k + grid.b && Math.abs(cells.weight[c]) > most) [best, most] = [[row, cells.key[c]], Math.abs(cells.weight[c])];
    }
  }
  return best;
}

function zoom(factor) {
  const window = look.window, sizes = [[cells.n, "rows", "q"], [cells.m, "keys", "k"]];
  if (cells.absent) return;
  for (const [all, size, at] of sizes) {
    window[size] = factor ? Math.max(Math.min(8, all), Math.min(all, Math.round(window[size] * factor))) : all;
    window[at] = Math.max(0, Math.min(all - window[size], look[at] - Math.floor(window[size] / 2)));
  }
  drawMap();
  put(look.q, look.k, true);
}

// Puts the cursor on a cell: marks it in matrix and text, and says what is there.
function put(q, k, force, scroll) {
  if (!force && q === look.q && k === look.k) return;
  Object.assign(look, { q, k });
  const window = look.window;
  if (q < window.q || q >= window.q + window.rows || k < window.k || k >= window.k + window.keys) {
    window.q = Math.max(0, Math.min(cells.n - window.rows, q - Math.floor(window.rows / 2)));
    window.k = Math.max(0, Math.min(cells.m - window.keys, k - Math.floor(window.keys / 2)));
    drawMap();
  }
  const draw = $("cursor").getContext("2d"), i = Math.floor((q - window.q) / grid.a), j = Math.floor((k - window.k) / grid.b);
  const x = grid.left + j * grid.x, y = grid.top + i * grid.y;
  draw.clearRect(0, 0, 1e4, 1e4);
  draw.strokeStyle = mark;
  draw.lineWidth = 1;
  draw.beginPath();
  for (const at of [y, y + grid.y]) draw.rect(grid.left, at, grid.keys * grid.x, 0);
  for (const at of [x, x + grid.x]) draw.rect(at, grid.top, 0, grid.rows * grid.y);
  draw.globalAlpha = 0.45;
  draw.stroke();
  draw.globalAlpha = 1;
  draw.lineWidth = look.held ? 4 : 2;
  draw.strokeRect(x - 1, y - 1, Math.max(grid.x, 5) + 2, Math.max(grid.y, 5) + 2);
  paint(scroll || look.held);
  say();
  note();
}

function say() {
  const { q, k } = look, weight = weightAt(cells, q, k), under = page.threshold === null ? "not among the largest" : `under ${page.threshold}`;
  const words = !isAllowed(map, q, k) ? "masked" : cells.absent ? "not in this page" : weight ? `weight ${shown(weight)}` : under;
  const rank = weight ? linesOf(cells, q, false).findIndex(([key]) => key === k) + 1 : 0;
  const place = rank ? ` · ${rank === 1 ? "heaviest" : `no. ${rank}`} of ${many(allowedKeys(map, q), "key")}` : "";
  const next = page.texts[layer().queries].flags[q + 1] & 2 ? ` · generated ${queryName(q + 1)}` : "";
  $("live").textContent = `query ${queryName(q)} → key ${keyName(k)} · ${words}${place}${next}${look.held ? " · held" : ""}`;
}

// ---- the text

function layOut() {
  const of = layer(), same = of.queries === of.keys;
  const boxes = same ? [[of.queries, "Text", true, true]] : [[of.queries, "Queries", true, false], [of.keys, "Keys", false, true]];
  tokens = { query: [], key: [] };
  painted = [];
  $("texts").replaceChildren(...boxes.map(([number, name, asQuery, asKey]) => {
    const box = document.createElement("div"), text = page.texts[number], rows = text.grid, patches = new Set(rows?.flat());
    const frame = rows && pictureFrame(rows);
    box.className = "tokens";
    box.tabIndex = 0;
    box.asQuery = () => (same ? !look.turned : asQuery);
    box.setAttribute("role", "listbox");
    box.setAttribute("aria-label", `${name}: arrow keys choose a token`);
    text.tokens.forEach((words, at) => {
      const span = document.createElement("span");
      span.className = `token${text.flags[at] & 1 ? " special" : ""}${text.flags[at] & 2 ? " generated" : ""}`;
      span.setAttribute("role", "option");
      span.setAttribute("aria-selected", "false");
      span.id = `t${number}-${at}`;
      span.textContent = text.flags[at] & 8 ? "∙" : words; // a later piece of a character that stands before it
      span.at = at;
      span.asQuery = asQuery;
      if (!patches.has(at)) box.append(text.gaps[at], span);
      else frame.append(span);
      if (at === rows?.[0][0]) box.append(frame);
      if (text.flags[at] & 4) box.append(document.createElement("br"));
      if (asQuery) tokens.query.push(span);
      if (asKey) tokens.key.push(span);
    });
    if (same) return box;
    const group = document.createElement("div"), heading = document.createElement("h3");
    heading.textContent = name.toLowerCase();
    group.append(heading, box);
    return group;
  }));
}

// Colours the tokens by the row (turned: the column) of the cursor, and lists the largest.
function paint(scroll) {
  const { q, k, turned } = look, asked = turned ? tokens.key[k] : tokens.query[q], shownIn = turned ? tokens.query : tokens.key;
  const list = linesOf(cells, turned ? k : q, turned), most = list.length ? Math.abs(list[0][1]) : 1;
  for (const span of painted) {
    span.style.backgroundColor = span.style.color = "";
    span.setAttribute("aria-selected", "false");
    span.closest(".tokens").removeAttribute("aria-activedescendant");
  }
  painted = [asked];
  for (const [at, weight] of list) {
    const colour = colourOf(level(weight, most, scale()));
    shownIn[at].style.backgroundColor = css(colour);
    shownIn[at].style.color = inkOn(colour);
    painted.push(shownIn[at]);
  }
  asked.setAttribute("aria-selected", "true");
  asked.closest(".tokens").setAttribute("aria-activedescendant", asked.id);
  if (scroll) reveal(asked);
  table(list, most);
}

// Scrolls a token's own box, and never the page, until it can be seen.
function reveal(span) {
  const box = span.closest(".tokens"), outer = box.getBoundingClientRect(), inner = span.getBoundingClientRect();
  if (inner.top < outer.top || inner.bottom > outer.bottom) box.scrollTop += inner.top - outer.top - box.clientHeight / 2;
}

function table(list, most) {
  const { q, k, turned } = look, name = turned ? queryName : keyName;
  $("asked").textContent = turned ? `who attends to ${keyName(k)}` : `what ${queryName(q)} attends to`;
  $("turn").setAttribute("aria-pressed", turned);
  $("what").textContent = turned ? "query" : "key";
  const entries = list.slice(0, LINES).map(([at, weight]) => [name(at), shown(weight), Math.abs(weight) / most, at]);
  const rest = (words, weight) => entries.push([words, weight]);
  const sum = (some) => some.reduce((all, [, weight]) => all + weight, 0), kept = sum(list), more = list.slice(LINES);
  if (more.length) rest(many(more.length, turned ? "more query" : "more key").replace("querys", "queries"), shown(sum(more)));
  let share = page.threshold === null ? `among ${page.rows}` : `of ${page.rows}`;
  if (cells.absent) share = "the rows of this head had no room in this page";
  else if (!turned) {
    const all = cells.sums ? cells.sums[q] : 1, left = allowedKeys(map, q) - list.length, missing = left && !cells.loose ? Math.max(0, all - kept) : 0;
    const under = page.threshold === null ? "" : ` under ${page.threshold},`;
    if (left) rest(`${many(left, "key")}${under} not in this page`, cells.loose ? "" : shown(missing));
    if (cells.sums && all < 0.998 && layer().sink) rest("learned sink", shown(1 - all));
    share = cells.loose || !(kept + missing) ? "" : `${Math.round((100 * kept) / (kept + missing))} % of this row is in this page`;
  }
  $("share").textContent = share;
  entries.forEach((entry, at) => fillRow($("rows").rows[at] ?? addRow($("rows"), "", "", ""), ...entry));
  while ($("rows").rows.length > entries.length) $("rows").deleteRow(-1);
}

// Rows stay and change what they say: a table made anew at every move would cost more than all else.
function fillRow(row, words, weight, part, token) {
  const bar = row.cells[2].firstChild ?? row.cells[2].appendChild(document.createElement("i"));
  row.cells[0].textContent = words;
  row.cells[1].textContent = weight;
  bar.style.width = `${100 * (part ?? 0)}%`;
  row.className = token === undefined ? "rest" : "";
  row.token = token;
}

// ---- mouse, keys, address

function note() {
  const of = layer(), number = (text, at) => page.texts[text].numbers?.[at] ?? at;
  const words = `${streams.indexOf(of.stream) ? `${encodeURIComponent(of.stream)}:` : ""}l${of.layer}${of.call ? `c${of.call}` : ""}h${of.heads[look.head]}`;
  const q = look.held || !look.turned ? `q${number(of.queries, look.q)}` : "", k = look.held || look.turned ? `k${number(of.keys, look.k)}` : "";
  look.address = `#${words}${q}${k}${look.turned ? "v" : ""}`;
  clearTimeout(note.timer);
  note.timer = setTimeout(() => {
    try {
      history.replaceState(null, "", look.address);
    } catch {
      // a frame without an address of its own
    }
  }, 150);
}

// Opens what an address names, such as #l15h6q511, #l15h6k9v for who looks at 9, #l15h6q511k9 held; false where it names nothing in this page.
async function follow(address) {
  const found = /^#(?:(.+):)?l(\d+)(?:c(\d+))?h(\d+)(?:q(\d+))?(?:k(\d+))?(v?)$/.exec(address);
  if (!found) return false;
  const [, stream, number, call, head, q, k, turned] = found, wanted = stream ? decodeURIComponent(stream) : streams[0];
  const at = page.layers.findIndex((each) => each.stream === wanted && each.layer === Number(number) && each.call === Number(call ?? 0));
  const index = at < 0 ? -1 : page.layers[at].heads.indexOf(Number(head));
  if (index < 0) return false;
  const place = (text, name) => (name === undefined ? undefined : Math.max(0, page.texts[text].numbers?.indexOf(Number(name)) ?? Number(name)));
  const query = place(page.layers[at].queries, q), key = place(page.layers[at].keys, k);
  look.turned = Boolean(turned);
  look.held = query !== undefined && key !== undefined;
  await open(at, index, query, key);
  return true;
}

function hold(q, k) {
  look.held = true;
  put(q, k, true);
}

function ask(at, asQuery) {
  if (layer().queries !== layer().keys) look.turned = !asQuery;
  const best = linesOf(cells, at, look.turned)[0]?.[0];
  return look.turned ? [best ?? look.q, at] : [at, best ?? heaviest(at)];
}

function turn() {
  look.turned = !look.turned;
  if (look.turned && layer().queries === layer().keys) return put(linesOf(cells, look.q, true)[0]?.[0] ?? look.q, look.q, true);
  return layer().queries === layer().keys ? put(look.k, heaviest(look.k), true) : put(look.q, look.k, true);
}

function step(what, by) {
  const of = layer(), rows = headCells().rows;
  if (what === "head") {
    const flat = rows.flatMap((at) => page.layers[at].heads.map((_, head) => [at, head]));
    const now = flat.findIndex(([at, head]) => at === look.layer && head === look.head);
    return open(...flat[(now + by + flat.length) % flat.length]);
  }
  const at = rows[(rows.indexOf(look.layer) + by + rows.length) % rows.length];
  return open(at, Math.min(look.head, page.layers[at].heads.length - 1));
}

function move(event) {
  const by = event.shiftKey ? 10 : 1, [x, y] = { ArrowLeft: [-by, 0], ArrowRight: [by, 0], ArrowUp: [0, -by], ArrowDown: [0, by] }[event.key];
  const within = (at, count) => Math.max(0, Math.min(count - 1, at));
  if (document.activeElement === $("chosen")) return y ? step("layer", Math.sign(y)) : step("head", Math.sign(x));
  if (!document.activeElement.matches(".tokens")) return put(within(look.q + y, cells.n), within(look.k + x, cells.m));
  const asQuery = document.activeElement.asQuery(), spans = asQuery ? tokens.query : tokens.key, now = asQuery ? look.q : look.k;
  return put(...ask(x ? within(now + x, spans.length) : below(spans, now, y), asQuery), true, true);
}

// The token above or below another.
function below(spans, now, by) {
  const from = spans[now].getBoundingClientRect(), far = (box) => Math.abs(box.left - from.left) + 40 * Math.abs(box.top - from.top);
  const there = spans.map((span, at) => [at, span.getBoundingClientRect()]).filter(([, box]) => (by > 0 ? box.top > from.top + 4 : box.top < from.top - 4));
  return there.sort((a, b) => far(a[1]) - far(b[1]))[0]?.[0] ?? now;
}

function search() {
  const [, word, number] = /^(.*?)(?:#(\d+))?$/.exec($("find").value.trim().toLowerCase()), text = page.texts[look.turned ? layer().keys : layer().queries];
  const names = text.tokens.map((_, at) => String(text.numbers?.[at] ?? at));
  matches = !word ? [] : [...text.tokens.keys()].filter((at) => (word === "+" ? text.flags[at] & 2 : /^\d+$/.test(word) ? names[at] === word : text.tokens[at].toLowerCase() === word));
  if (!matches.length && word) matches = [...text.tokens.keys()].filter((at) => text.tokens[at].toLowerCase().includes(word));
  if (number) matches = matches.slice(number - 1, number);
  $("find").setAttribute("aria-invalid", Boolean(word) && !matches.length);
}

function next(by, among = matches) {
  const now = look.turned ? look.k : look.q, later = by > 0 ? among.filter((at) => at > now) : among.filter((at) => at < now).reverse();
  const at = later[0] ?? (by > 0 ? among[0] : among[among.length - 1]);
  if (at === undefined) return;
  hold(...ask(at, !look.turned));
}

// The rows that generated a token: each is the one before it, as in attn explore.
function generatedFrom(by) {
  const flags = page.texts[layer().queries].flags;
  look.turned = false;
  next(by, [...flags.keys()].filter((at) => at > 0 && flags[at] & 2).map((at) => at - 1));
}

function setTheme(dark, keep) {
  if (!keep) setTheme.dark = dark;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").textContent = dark ? "light" : "dark";
  $("theme").setAttribute("aria-label", `${dark ? "light" : "dark"} colours`);
  mark = getComputedStyle(document.documentElement).getPropertyValue("--mark");
  colours = ramp(dark ? DARK : LIGHT);
  inks = new Uint32Array(new Uint8Array([...colours.slice(0, 255), masked()].flatMap((colour) => [...colour, 255])).buffer);
  if (cells) redraw();
}

// Light colours, and what lies over a map drawn into it: Chromium prints a transparent canvas as a white one.
function forPaper() {
  setTheme(false, true);
  for (const stack of document.querySelectorAll(".stack")) {
    const [below, above] = stack.children, draw = below.getContext("2d");
    draw.resetTransform();
    draw.drawImage(above, 0, 0);
  }
}

function redraw() {
  drawHeads();
  drawMap();
  put(look.q, look.k, true);
}

// A picker that was used gives the keys back to the page.
function chosen(select, then) {
  select.addEventListener("change", () => {
    select.blur();
    then();
  });
}

function cycle(select) {
  select.selectedIndex = (select.selectedIndex + 1) % select.options.length;
  redraw();
}

const ACTIONS = {
  "[": () => step("head", -1), "]": () => step("head", 1), "{": () => step("layer", -1), "}": () => step("layer", 1), v: turn,
  "/": () => $("find").focus(), n: () => next(1), N: () => next(-1), "<": () => generatedFrom(-1), ">": () => generatedFrom(1),
  "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => zoom(0), s: () => cycle($("scale")), t: () => cycle($("by")),
  "?": () => $("keys").showModal(), Enter: () => hold(look.q, look.k), Escape: release,
};

function release() {
  look.held = false;
  put(look.q, look.k, true);
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  const typing = event.target.matches("input, select"), onButton = event.target.matches("button") && event.key === "Enter";
  if (event.target === $("find") && ["Enter", "Escape"].includes(event.key)) {
    search();
    if (event.key === "Enter") next(1);
    event.target.blur();
    event.preventDefault();
    return;
  }
  if (typing || onButton) return;
  const action = event.key.startsWith("Arrow") ? move : ACTIONS[event.key];
  if (!action) return;
  event.preventDefault();
  action(event);
}

function listen() {
  document.addEventListener("keydown", pressed);
  $("cursor").addEventListener("pointermove", (event) => {
    const cell = look.held || event.pointerType === "touch" ? null : cellAt(event);
    if (cell) put(...cell);
  });
  $("cursor").addEventListener("click", (event) => {
    const cell = cellAt(event);
    if (cell) hold(...cell);
  });
  $("cursor").addEventListener("dblclick", () => zoom(0.5));
  $("texts").addEventListener("pointerover", (event) => {
    if (!look.held && event.pointerType !== "touch" && event.target.asQuery !== undefined) put(...ask(event.target.at, event.target.asQuery));
  });
  $("rows").addEventListener("click", (event) => {
    const at = event.target.closest("tr").token, turned = look.turned;
    if (at === undefined) return;
    hold(...(turned ? [at, look.k] : [look.q, at]));
    reveal((turned ? tokens.query : tokens.key)[at]);
  });
  $("texts").addEventListener("click", (event) => {
    if (event.target.asQuery !== undefined) hold(...ask(event.target.at, event.target.asQuery));
  });
  $("chosen").addEventListener("pointermove", (event) => choose(...(headAt(event) ?? [look.layer, look.head])));
  $("chosen").addEventListener("pointerleave", () => choose(look.layer, look.head));
  $("chosen").addEventListener("click", (event) => headAt(event) && open(...headAt(event)));
  chosen($("stream"), () => open(page.layers.findIndex((each) => each.stream === $("stream").value), 0));
  chosen($("layer"), () => open(Number($("layer").value), Math.min(look.head, page.layers[$("layer").value].heads.length - 1)));
  chosen($("head"), () => open(look.layer, Number($("head").value)));
  chosen($("scale"), redraw);
  chosen($("by"), redraw);
  $("find").addEventListener("input", search);
  $("before").addEventListener("click", () => stepOut(-1));
  $("after").addEventListener("click", () => stepOut(1));
  $("turn").addEventListener("click", turn);
  $("in").addEventListener("click", () => zoom(0.5));
  $("out").addEventListener("click", () => zoom(2));
  $("whole").addEventListener("click", () => zoom(0));
  $("theme").addEventListener("click", () => setTheme(!isDark()));
  $("help").addEventListener("click", () => $("keys").showModal());
  $("close").addEventListener("click", () => $("keys").close());
  addEventListener("hashchange", () => follow(location.hash));
  addEventListener("resize", redraw);
  addEventListener("beforeprint", forPaper);
  addEventListener("afterprint", () => setTheme(setTheme.dark, true));
}

start();
