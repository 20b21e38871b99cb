// The page: reads its data, draws it, and follows keys, mouse and address. All text goes through textContent.

const MOST = 64; // rows and columns of a matrix; of more, blocks are drawn
const NEAR = 32; // rows and columns around the cursor
const LISTED = 8; // keys of a row at first, heads of a family
const SPECIAL = 1, GENERATED = 2, LATER_PIECE = 4; // flags of a token
const $ = (id) => document.getElementById(id);
const lines = $("data").textContent.split("\n"); // the document, its arrays, then a line for each head
const look = { at: 0, head: 0, q: 0, k: 0, turned: false, held: false, near: false };
let page, arrays, streams, cells, mask, grid, colours, spans, opening = 0, matches = [];

const layer = () => page.layers[look.at];
const textOf = (turned) => page.texts[turned ? layer().keys : layer().queries];
const label = (text, at) => `${text.numbers[at]} ${text.flags[at] & GENERATED ? "+" : ""}${text.tokens[at]}`;
const headName = (at, head) => `head ${streams.length > 1 ? `${page.layers[at].stream} ` : ""}${page.layers[at].layer}.${page.layers[at].heads[head]}${page.layers[at].call ? ` run ${page.layers[at].call + 1}` : ""}`;
const many = (count, one, more = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : more}`;
const shown = (weight) => (weight && Math.abs(weight) < 0.001 ? weight.toPrecision(1) : weight.toFixed(3));
const within = (at, count) => Math.max(0, Math.min(count - 1, at));
const made = (tag, set, ...children) => {
  const element = Object.assign(document.createElement(tag), set);
  element.append(...children);
  return element;
};

async function inflated(text) {
  const asItIs = text.startsWith("="), bytes = Uint8Array.from(atob(text.slice(asItIs)), (letter) => letter.charCodeAt(0));
  if (asItIs) return bytes.buffer;
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
}

async function start() {
  if (typeof DecompressionStream === "undefined") return document.body.append("This browser is too old: Chrome 80, Safari 16.4, Firefox 113 or later open it.");
  page = JSON.parse(new TextDecoder().decode(await inflated(lines[0])));
  arrays = await inflated(lines[1]);
  for (const each of page.layers) each.does = each.does.map((does) => page.kinds[does] ?? does);
  streams = [...new Set(page.layers.map((each) => each.stream))];
  $("about").textContent = page.about.join(" · ");
  const isShort = page.texts.every(({ tokens }) => tokens.length <= page.whole);
  $("texts").classList.toggle("long", page.texts.some(({ tokens }) => tokens.length > 200)); // printed last
  const kept = isShort ? "every weight of 0.0005 and more" : `the ${LISTED} heaviest keys of each row, and all of the row it opens with`;
  const empty = lines.slice(2).filter((line) => !line).length, absent = empty ? ` ${many(empty, "head")} had no room in it or in memory.` : "";
  $("note").textContent = `In this page: ${kept}.${absent} It holds the text ${page.picture ? "and the image " : ""}that it was made from: whoever gets the page can read it.`;
  const kinds = page.layers.some((each) => each.does.some(({ letter }) => letter)) ? [["", "what they do"]] : [];
  $("by").replaceChildren(...[...kinds, ...page.statistics.map((each) => [each.name, each.heading])].map(([value, text]) => new Option(text, value)));
  tell("story", page.story);
  tell("families", page.families);
  listHeads();
  setColours(matchMedia("(prefers-color-scheme: dark)").matches);
  $("page").hidden = false;
  listen();
  if (!(await follow(location.hash))) await open(...page.start);
  document.documentElement.dataset.ready = "yes";
}

// Lines of pieces, the first line of the story as a heading. A piece that names a cell opens it.
function tell(id, told) {
  const piece = ({ text, cell, colour, letter }, at) => {
    const element = made(cell ? "button" : at ? "span" : "b", { textContent: letter ? `${letter} ${text}` : text, cell, onclick: cell && (() => open(...cell)) });
    if (colour) paint(element, colour);
    return made("span", {}, element);
  };
  $(id).replaceChildren(...told.map((line, at) => made(id === "story" && !at ? "h1" : "p", {}, ...line.flatMap((each, place) => [piece(each, place), " "]))));
}

// Opens a head: its rows are unpacked, its texts laid out, everything drawn. The cursor stays where it can.
async function open(at, head, q, k) {
  const mine = ++opening, data = lines[page.layers[at].line + head], before = layer(), laidOut = Boolean(cells);
  const buffer = data ? await inflated(data) : null;
  if (mine !== opening) return;
  Object.assign(look, { at, head, by: "opened", listed: LISTED });
  const now = layer(), n = textOf(false).tokens.length, m = textOf(true).tokens.length;
  cells = unpacked(buffer, n, m);
  mask = new Int32Array(arrays, now.mask, 3 * n);
  if (!laidOut || before.queries !== now.queries || before.keys !== now.keys) layOut();
  look.q = within(q ?? (k === undefined ? look.q : columnOf(within(k, m))[0]?.[0] ?? look.q), n);
  const isKept = look.held || isWhole(look.q) || weightAt(look.q, k);
  look.k = within((isKept ? k : null) ?? heaviest(look.q), m);
  say();
  redraw();
}

// ---- cells

const bySize = (a, b) => Math.abs(b[1]) - Math.abs(a[1]);

// The kept cells of a head: for each query [[key, weight], ...], the largest first.
function unpacked(buffer, n, m) {
  if (!buffer) return { n, m, sums: null, rows: Array(n).fill([]) };
  const bytes = new Uint8Array(buffer);
  let from = 0, at = 0;
  const numbers = (Type, count) => { // the first bytes of all, then the second ones ...
    const size = Type.BYTES_PER_ELEMENT, planes = bytes.subarray(from, (from += size * count));
    return new Type(planes.map((_, place) => planes[(place % size) * count + Math.floor(place / size)]).buffer);
  };
  const floats = numbers(Float32Array, n + 1), count = (bytes.length - from - 2 * n) / 6;
  const keys = numbers(Uint32Array, count), steps = numbers(Int16Array, count);
  const row = (size) => Array.from({ length: size }, () => [keys[at], steps[at++] / floats[0]]).sort(bySize);
  return { n, m, sums: floats.subarray(1), rows: [...numbers(Uint16Array, n)].map(row) };
}

// What a key gets: [[query, weight], ...], the largest first.
const columnOf = (k) => cells.rows.flatMap((row, q) => row.filter(([key]) => key === k).map(([, weight]) => [q, weight])).sort(bySize);
const linesOf = (at, turned) => (turned ? columnOf(at) : cells.rows[at]);
const heaviest = (q) => cells.rows[q][0]?.[0] ?? mask[3 * q];
const isWhole = (q) => cells.m <= page.whole || cells.rows[q].length > LISTED;
const isMasked = (q, k) => k < mask[3 * q] || k >= mask[3 * q + 1];
const weightAt = (q, k) => cells.rows[q].find(([key]) => key === k)?.[1] ?? 0;

// The matrix, or the cells at the cursor, in blocks of a rows and b columns: the largest weight of each, -1 where masked.
function pooled() {
  const [a, b] = look.near ? [1, 1] : [Math.ceil(cells.n / MOST), Math.ceil(cells.m / MOST)], most = look.near ? NEAR : Infinity;
  const high = Math.min(cells.n, most), wide = Math.min(cells.m, most), rows = Math.ceil(high / a), keys = Math.ceil(wide / b);
  const q = within(look.q - Math.floor(high / 2), cells.n - high + 1), k = within(look.k - Math.floor(wide / 2), cells.m - wide + 1);
  const values = new Float32Array(rows * keys).fill(-1);
  const places = Float64Array.from(values, (_, x) => (q + Math.floor(x / keys) * a) * cells.m + k + (x % keys) * b);
  for (let row = 0; row < high; row++) {
    const at = Math.floor(row / a) * keys, first = Math.max(mask[3 * (q + row)] - k, 0), last = Math.min(mask[3 * (q + row) + 1] - k, wide);
    for (let x = Math.floor(first / b); first < last && x <= Math.floor((last - 1) / b); x++) values[at + x] = Math.max(values[at + x], 0);
    for (const [key, weight] of cells.rows[q + row]) {
      const x = at + Math.floor((key - k) / b);
      if (key >= k && key < k + wide && Math.abs(weight) > values[x]) [values[x], places[x]] = [Math.abs(weight), (q + row) * cells.m + key];
    }
  }
  return { q, k, a, b, rows, keys, values, places, high: Math.max(1, ...values) };
}

// ---- the matrix

function drawMatrix() {
  grid = pooled();
  const { q, k, a, b, rows, keys, values, high } = grid, isSharp = a * b === 1, queries = textOf(false), columns = textOf(true);
  const name = (text, at, i) => (isSharp ? label(text, at) : i % 8 ? "" : String(text.numbers[at]));
  const items = [made("b")], hasRoom = isSharp && $("map").parentNode.clientWidth >= 25 * (keys + 3);
  for (let j = 0; j < keys; j++) items.push(made("b", { className: "key", textContent: name(columns, k + j * b, j) }));
  for (let i = 0; i < rows; i++) {
    const row = new Map(hasRoom ? cells.rows[q + i] : []);
    items.push(made("b", { textContent: name(queries, q + i * a, i) }));
    for (let j = 0; j < keys; j++) {
      const value = values[i * keys + j], cell = made("i", { place: i * keys + j });
      if (value >= 0) paintCell(cell, Math.sqrt(value / high));
      if (hasRoom && value > 0) cell.textContent = row.get(k + j).toFixed(3).replace("0.", ".");
      items.push(cell);
    }
  }
  $("map").style.gridTemplateColumns = `max-content repeat(${keys}, minmax(0, ${keys > NEAR ? 18 : 34}px))`;
  $("map").replaceChildren(...items);
  $("most").textContent = `${Number(grid.high.toPrecision(2))}, ${Number((grid.high / 4).toPrecision(2))} in the middle`;
  $("near").hidden = Math.max(cells.n, cells.m) <= NEAR;
  $("size").textContent = `${cells.n} x ${cells.m}, rows are queries · ${layer().rule}${isSharp ? "" : ` · largest of ${a} x ${b}`}`;
}

const paintCell = (element, part) => paint(element, colours[Math.round((colours.length - 1) * Math.min(part, 1))]);

function paint(element, [backgroundColor, color]) {
  Object.assign(element.style, { backgroundColor, color });
}

// The cell under the mouse; of a block the heaviest.
const cellAt = ({ place }) => (place === undefined ? null : [Math.floor(grid.places[place] / cells.m), grid.places[place] % cells.m]);

// Puts the cursor on a cell: marks it in matrix and text, and says what is there.
function put(q, k, force) {
  if (!force && q === look.q && k === look.k) return;
  Object.assign(look, { q, k });
  const inside = (at, from, size, count) => at >= from && at < from + size * count;
  if (!inside(q, grid.q, grid.a, grid.rows) || !inside(k, grid.k, grid.b, grid.keys)) drawMatrix();
  for (const element of $("map").querySelectorAll(".on, .cursor")) element.classList.remove("on", "cursor", "held");
  const i = Math.floor((q - grid.q) / grid.a), j = Math.floor((k - grid.k) / grid.b), items = $("map").children, row = (i + 1) * (grid.keys + 1);
  items[j + 1].classList.add("on");
  items[row].classList.add("on");
  items[row + j + 1].classList.add("cursor", ...(look.held ? ["held"] : []));
  paintText();
  sayCell();
  note();
}

function sayCell() {
  const { q, k } = look, weight = weightAt(q, k), rank = cells.rows[q].findIndex(([key]) => key === k);
  const small = isWhole(q) ? "under 0.0005" : "not among the 8 heaviest of its row";
  const words = isMasked(q, k) ? "masked" : weight ? `weight ${shown(weight)}` : cells.sums ? small : "not in this page";
  const place = rank < 0 ? "" : ` · ${rank ? `no. ${rank + 1}` : "heaviest"} of ${many(mask[3 * q + 2], "key")}`;
  const next = textOf(false).flags[q + 1] & GENERATED ? ` · generated ${label(textOf(false), q + 1)}` : "";
  $("live").textContent = `query ${label(textOf(false), q)} → key ${label(textOf(true), k)} · ${words}${place}${next}${look.held ? " · held" : ""}`;
}

// ---- the text

function layOut() {
  const of = layer(), same = of.queries === of.keys;
  const boxes = same ? [[of.queries, "text", true, true]] : [[of.queries, "queries", true, false], [of.keys, "keys", false, true]];
  spans = { query: [], key: [] };
  $("texts").replaceChildren(...boxes.flatMap(([number, name, asQuery, asKey]) => {
    const box = made("div", { className: "tokens", tabIndex: 0, role: "listbox", ariaLabel: `${name}: arrow keys choose a token`, asQuery, asKey });
    const text = page.texts[number], patches = new Set(text.grid?.flat()), frame = text.grid && pictureFrame(text.grid);
    text.tokens.forEach((words, at) => {
      const kind = `token${text.flags[at] & SPECIAL ? " special" : ""}${text.flags[at] & GENERATED ? " generated" : ""}`;
      const textContent = text.flags[at] & LATER_PIECE ? "∙" : words; // a later piece of a character that stands before it
      const span = made("span", { className: kind, role: "option", ariaSelected: "false", id: `t${number}-${at}`, textContent, at, asQuery });
      if (!patches.has(at)) box.append(text.gaps[at], span);
      else frame.append(span);
      if (at === text.grid?.[0][0]) box.append(frame);
      if (words.includes("↵")) box.append("\n");
      if (asQuery) spans.query.push(span);
      if (asKey) spans.key.push(span);
    });
    return same ? [box] : [made("h3", { textContent: name }), box];
  }));
}

// A box with the image as the model read it behind a grid, into whose cells the tokens of `rows` come.
function pictureFrame(rows) {
  const [place, height, width] = page.picture, canvas = made("canvas", { width, height });
  const pixels = new Uint8ClampedArray(arrays, place, 4 * width * height);
  canvas.getContext("2d").putImageData(new ImageData(pixels, width, height), 0, 0);
  const frame = made("div", { className: "picture", role: "group", ariaLabel: "The image" }, canvas);
  Object.assign(frame.style, { gridTemplateColumns: `repeat(${rows[0].length}, 1fr)`, aspectRatio: `${width} / ${height}` });
  return frame;
}

// Scrolls the box of a token so far that it is seen, in the middle.
function show(token) {
  const box = token.closest(".tokens"), outer = box.getBoundingClientRect(), inner = token.getBoundingClientRect();
  if (inner.top < outer.top || inner.bottom > outer.bottom) box.scrollTop += inner.top - outer.top - box.clientHeight / 2;
}

// Colours the tokens by the row (turned: the column) of the cursor, and lists the largest.
function paintText() {
  const { q, k, turned } = look, asked = turned ? spans.key[k] : spans.query[q], list = linesOf(turned ? k : q, turned);
  const ofToken = turned ? spans.query : spans.key, brightest = list.find(([at]) => ofToken[at].closest(".picture"))?.[1];
  for (const span of [...spans.query, ...spans.key]) {
    span.style.backgroundColor = span.style.color = "";
    span.ariaSelected = "false";
    span.classList.remove("other");
    span.closest(".tokens").removeAttribute("aria-activedescendant");
  }
  for (const [at, weight] of list) {
    const level = Math.sqrt(Math.abs(weight) / grid.high);
    const veil = 80 * (1 - Math.abs(weight / brightest) ** 0.6); // percent, over a patch
    if (ofToken[at].closest(".picture")) ofToken[at].style.backgroundColor = `color-mix(in srgb, var(--back) ${veil}%, transparent)`;
    else if (level >= 0.1) paintCell(ofToken[at], level); // less than a hundredth stays plain
  }
  asked.ariaSelected = "true";
  asked.closest(".tokens").setAttribute("aria-activedescendant", asked.id);
  const other = ofToken[turned ? q : k];
  other.classList.add("other");
  for (const token of { opened: [other, asked], listed: [asked, other] }[look.by] ?? [asked]) show(token);
  look.by = "";
  listKeys(list);
  if (brightest) $("asked").append(` · lit up to ${shown(brightest)}${(turned ? cells.m <= page.whole : isWhole(q)) ? "" : `, the ${LISTED} heaviest alone`}`);
}

function listKeys(list) {
  const { q, k, turned, listed } = look, text = textOf(!turned), most = Math.abs(list[0]?.[1] ?? 1);
  $("asked").textContent = turned ? `what reads ${label(textOf(true), k)}` : `what ${label(textOf(false), q)} reads`;
  $("turn").setAttribute("aria-pressed", turned);
  $("what").textContent = turned ? "query" : "key";
  const [first, others] = [list.slice(0, listed), list.slice(listed)], total = (each) => each.reduce((sum, [, weight]) => sum + weight, 0);
  const entries = first.map(([at, weight]) => [label(text, at), shown(weight), Math.abs(weight) / most, at]), all = cells.sums?.[q] ?? 0;
  if (!first.length) entries.push([cells.sums ? "none in this page" : "no room for this head: choose layers with -l or heads with -H", ""]);
  const more = turned ? others.length : mask[3 * q + 2] - first.length, words = many(more, ...(turned ? ["more query", "more queries"] : ["more key"]));
  const left = turned ? total(others) : layer().softmax ? Math.max(all - total(first), 0) : all - total(first);
  const isKept = turned || isWhole(q), onclick = () => Object.assign(look, { listed: 4 * listed }) && put(q, k, true);
  const rest = others.length ? made("button", { textContent: words, onclick }) : isKept ? words : `${words}, not in this page`;
  if (cells.sums && more > 0) entries.push([rest, Math.abs(left) < 0.001 ? "< 0.001" : shown(left)]);
  if (!turned && cells.sums && layer().sink) entries.push(["learned sink", shown(Math.max(1 - all, 0))]);
  $("rows").replaceChildren(...entries.map(([words, weight, part, at]) => {
    const bar = made("i");
    bar.style.width = `${100 * (part ?? 0)}%`;
    const columns = [made("td", {}, words), made("td", { textContent: weight }), made("td", {}, bar)];
    return made("tr", { className: part === undefined ? "rest" : "", token: at }, ...columns);
  }));
}

// ---- the heads

const layersOf = (stream) => [...page.layers.keys()].filter((at) => page.layers[at].stream === stream);

// A map of each stream: layers across, heads down.
function listHeads() {
  $("heads").replaceChildren(...streams.flatMap((stream) => {
    const across = layersOf(stream), down = Math.max(...across.map((at) => page.layers[at].heads.length)), box = made("div");
    box.style.gridTemplateColumns = `max-content repeat(${across.length}, minmax(0, 24px))`;
    box.append(made("span", { textContent: "layer" }), ...across.map((at, x) => made("span", { textContent: across.length > 12 && x % 2 ? "" : page.layers[at].layer })));
    for (let head = 0; head < down; head++) {
      box.append(made("span", { textContent: page.layers[across[0]].heads[head] ?? head }));
      for (const at of across) {
        const { words, cell = [at, head] } = page.layers[at].does[head] ?? {}, ariaLabel = `${headName(at, head)}${words && `: ${words}`}`;
        box.append(words === undefined ? made("span") : made("button", { cell: [at, head], tabIndex: -1, ariaLabel, title: ariaLabel, onclick: () => open(...cell) }));
      }
    }
    return streams.length > 1 ? [made("h3", { textContent: stream }), box] : [box];
  }));
}

function drawHeads() {
  const by = $("by").value, buttons = [...$("heads").querySelectorAll("button")];
  const numbers = buttons.map(({ cell: [at, head] }) => page.layers[at].numbers[by]?.[head] ?? null);
  const finite = numbers.filter((value) => value !== null), low = Math.min(0, ...finite), high = Math.max(...finite);
  const own = page.layers[look.at].numbers[by]?.[look.head] ?? null;
  const told = new Set(page.story.flat().map(({ cell }) => String(cell?.slice(0, 2))));
  $("range").textContent = by ? `${low.toFixed(2)} to ${high.toFixed(2)}${own === null ? "" : `, this head ${own.toFixed(2)}`}` : told.size > 1 ? `with a dot: brings ${page.aim}` : "";
  buttons.forEach((button, at) => {
    const isOpen = button.cell[0] === look.at && button.cell[1] === look.head, { letter = "", colour } = by ? {} : page.layers[button.cell[0]].does[button.cell[1]];
    Object.assign(button, { textContent: letter, className: told.has(String(button.cell)) ? "told" : "" });
    if (colour) paint(button, colour);
    else if (numbers[at] !== null) paintCell(button, high > low ? (numbers[at] - low) / (high - low) : 0);
    else button.style.cssText = "";
    button.setAttribute("aria-current", isOpen);
    button.tabIndex = isOpen ? 0 : -1;
    if (isOpen && document.activeElement.closest("#heads")) button.focus();
  });
}

function say() {
  const { at, head } = look, { words } = page.layers[at].does[head], told = page.story.flat().find(({ cell }) => cell?.[0] === at && cell[1] === head);
  const gives = told && weightAt(told.cell[2], told.cell[3]) >= 0.01 && `gives ${label(textOf(true), told.cell[3])} ${shown(weightAt(told.cell[2], told.cell[3]))} of its weight: ${page.aim}`;
  $("name").textContent = headName(at, head);
  $("does").textContent = [gives, words].filter(Boolean).join(" · ");
  const ofHead = [...document.querySelectorAll("h1 button, p button")].filter(({ cell }) => cell[0] === at && cell[1] === head);
  const current = ofHead.find((button) => button === document.activeElement) ?? ofHead.find(({ cell: [, , q, k] }) => q === look.q && k === look.k) ?? ofHead[0];
  document.querySelector("p [aria-current=true], h1 [aria-current=true]")?.setAttribute("aria-current", false);
  current?.setAttribute("aria-current", true);
}

// ---- keys, mouse, address

// Writes the place into the address, such as #l15h6q511, #l15h6k9v for who reads 9, #l15h6q511k9 held.
function note() {
  const of = layer(), { q, k, turned, held } = look;
  const head = `${streams.indexOf(of.stream) ? `${encodeURIComponent(of.stream)}:` : ""}l${of.layer}${of.call ? `c${of.call}` : ""}h${of.heads[look.head]}`;
  const query = held || !turned ? `q${textOf(false).numbers[q]}` : "", key = held || turned ? `k${textOf(true).numbers[k]}` : "";
  clearTimeout(note.timer);
  const address = `#${head}${query}${key}${turned ? "v" : ""}`;
  note.timer = setTimeout(() => location.protocol !== "about:" && history.replaceState(null, "", address), 150); // frames have none
}

// Opens what an address names; false where it names nothing in this page.
async function follow(address) {
  const found = /^#(?:(.+):)?l(\d+)(?:c(\d+))?h(\d+)(?:q(\d+))?(?:k(\d+))?(v?)$/.exec(address);
  if (!found) return false;
  const [, stream, number, call, name, q, k, turned] = found, wanted = stream ? decodeURIComponent(stream) : streams[0];
  const at = page.layers.findIndex((each) => each.stream === wanted && each.layer === Number(number) && each.call === Number(call ?? 0));
  const head = at < 0 ? -1 : page.layers[at].heads.indexOf(Number(name));
  if (head < 0) return false;
  const place = (text, token) => (token === undefined ? undefined : Math.max(0, text.numbers.findLastIndex((number) => number <= token)));
  Object.assign(look, { turned: Boolean(turned), held: q !== undefined && k !== undefined });
  await open(at, head, place(page.texts[page.layers[at].queries], q), place(page.texts[page.layers[at].keys], k));
  return true;
}

function hold(q, k, held = true) {
  look.held = held;
  put(q, k, true);
}

// The cell to go to for a token: with the key that it reads most, or the query that reads it most.
function ask(at, asQuery) {
  if (layer().queries !== layer().keys) look.turned = !asQuery;
  const best = linesOf(at, look.turned)[0]?.[0];
  return look.turned ? [best ?? look.q, at] : [at, best ?? heaviest(at)];
}

function turn() {
  const at = layer().queries !== layer().keys ? (look.turned ? look.q : look.k) : look.turned ? look.k : look.q;
  look.turned = !look.turned;
  put(...ask(at, !look.turned), true);
}

// The head so many further in its stream, after the last the first.
function step(by) {
  const all = layersOf(layer().stream).flatMap((at) => page.layers[at].heads.map((_, head) => [at, head]));
  const now = all.findIndex(([at, head]) => at === look.at && head === look.head);
  return open(...all[(now + by + all.length) % all.length]);
}

function move(event) {
  const by = event.shiftKey ? 10 : 1, [x, y] = { ArrowLeft: [-by, 0], ArrowRight: [by, 0], ArrowUp: [0, -by], ArrowDown: [0, by] }[event.key];
  const box = document.activeElement;
  if (box.closest("#heads")) return step(Math.sign(y) + Math.sign(x) * layer().heads.length);
  if (!box.matches(".tokens")) return put(within(look.q + y, cells.n), within(look.k + x, cells.m));
  const asQuery = box.asQuery && !(box.asKey && look.turned), list = asQuery ? spans.query : spans.key, now = asQuery ? look.q : look.k;
  return put(...ask(within(now + x + y, list.length), asQuery), true);
}

// Finds a token by its number, or words wherever they stand in the text, over several tokens too.
function search() {
  const word = $("find").value.trim().toLowerCase(), text = textOf(look.turned), ends = [];
  let whole = "";
  for (const at of text.tokens.keys()) ends.push((whole += text.gaps[at].replace("\n", " ") + text.tokens[at].toLowerCase()).length);
  const places = new Set(/^\d+$/.test(word) ? [...text.tokens.keys()].filter((at) => text.numbers[at] === Number(word)) : []);
  for (let from = whole.indexOf(word); word && from >= 0; from = whole.indexOf(word, from + 1)) places.add(ends.findIndex((end) => end > from));
  matches = [...places];
  $("find").setAttribute("aria-invalid", Boolean(word) && !matches.length);
  $("found").textContent = !word ? "" : matches.length ? many(matches.length, "place") : "not in this text";
}

// The next place after the cursor, after the last one the first.
function next() {
  const at = matches.find((place) => place > (look.turned ? look.k : look.q)) ?? matches[0];
  if (at === undefined) return;
  hold(...ask(at, !look.turned));
  $("found").textContent = `${matches.indexOf(at) + 1} of ${many(matches.length, "place")}`;
}

function setColours(dark) {
  colours = page.colours[Number(dark)];
  document.querySelector("#legend i").style.background = `linear-gradient(90deg, ${[0, 0.25, 0.5, 0.75, 1].map((part) => colours[Math.round((colours.length - 1) * part)][0])})`;
  if (cells) redraw();
}

function redraw() {
  drawHeads();
  drawMatrix();
  put(look.q, look.k, true);
}

function near() {
  look.near = !look.near && !$("near").hidden;
  $("near").setAttribute("aria-pressed", look.near);
  redraw();
}

const ACTIONS = {
  "[": () => step(-1), "]": () => step(1), "{": () => step(-layer().heads.length), "}": () => step(layer().heads.length), v: turn, z: near, n: next,
  "/": () => $("find").select(), "?": () => $("keys").toggleAttribute("open"), Enter: () => hold(look.q, look.k), Escape: () => hold(look.q, look.k, false),
};

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === $("find") && ["Enter", "Escape"].includes(event.key)) {
    if (event.key === "Enter") next();
    event.target.blur();
    event.preventDefault();
    return;
  }
  if (event.target.matches("input, select") || (event.target.matches("button") && event.key === "Enter")) return;
  const action = event.key.startsWith("Arrow") ? move : ACTIONS[event.key];
  if (!action) return;
  event.preventDefault();
  action(event);
}

function listen() {
  const dark = matchMedia("(prefers-color-scheme: dark)"), isFree = (event) => !look.held && event.pointerType !== "touch";
  document.addEventListener("keydown", pressed);
  $("map").addEventListener("pointerover", (event) => isFree(event) && cellAt(event.target) && put(...cellAt(event.target)));
  $("map").addEventListener("click", (event) => cellAt(event.target) && hold(...cellAt(event.target)));
  $("texts").addEventListener("pointerover", (event) => isFree(event) && event.target.at !== undefined && put(...ask(event.target.at, event.target.asQuery)));
  $("texts").addEventListener("click", (event) => event.target.at !== undefined && hold(...ask(event.target.at, event.target.asQuery)));
  $("rows").addEventListener("click", (event) => {
    const at = event.target.closest("tr").token;
    look.by = "listed";
    if (at !== undefined) hold(...(look.turned ? [at, look.k] : [look.q, at]));
  });
  $("keys").addEventListener("toggle", () => $("keys").scrollIntoView());
  $("by").addEventListener("change", drawHeads);
  $("find").addEventListener("input", search);
  $("turn").addEventListener("click", turn);
  $("near").addEventListener("click", near);
  dark.addEventListener("change", () => setColours(dark.matches));
  addEventListener("hashchange", () => follow(location.hash));
  addEventListener("beforeprint", () => setColours(false));
  addEventListener("afterprint", () => setColours(dark.matches));
}

// A notebook makes the frame of this page as high as the page is.
const tellHeight = () => parent.postMessage({ height: document.body.offsetHeight }, "*");
if (parent !== window) new ResizeObserver(tellHeight).observe(document.body);
addEventListener("load", tellHeight);
start();
