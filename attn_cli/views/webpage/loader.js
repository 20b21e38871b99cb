// The first script of a page: unpacks its style, body and script, and starts it; the policy knows both by their hashes.
// The lines of data: style, body and script; all but the weights; then a line for each head.

const lines = document.getElementById("data").textContent.split("\n");

// 85 letters, five of which are four bytes; none of them has a meaning in HTML.
const DIGITS = {};
for (let code = 33; code < 127; code++) {
  const letter = String.fromCharCode(code);
  if (!"\"$&'-<>\\`".includes(letter)) DIGITS[letter] = Object.keys(DIGITS).length;
}

function bytesOf(text) {
  const view = new DataView(new ArrayBuffer(4 * Math.ceil(text.length / 5)));
  for (let i = 0; i < text.length; i += 5) {
    let value = 0;
    for (let j = i; j < i + 5; j++) value = value * 85 + (DIGITS[text[j]] ?? 84);
    view.setUint32((i / 5) * 4, value);
  }
  return new Uint8Array(view.buffer, 0, Math.floor((text.length * 4) / 5));
}

async function inflated(text) {
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
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

async function load() {
  if (typeof DecompressionStream === "undefined") return withoutStreams();
  const [style, body, script] = new TextDecoder().decode(await inflated(lines[0])).split("\0");
  const add = (name, text) => document.head.append(Object.assign(document.createElement(name), { textContent: text }));
  add("style", style);
  document.body.prepend(...new DOMParser().parseFromString(body, "text/html").body.childNodes);
  add("script", script);
}

load();
