// The first script of a page: unpacks style and script, which the policy knows by their hashes, and starts them.
// The lines of data: style, script, all but the weights, then one for each head.

const lines = document.getElementById("data").textContent.split("\n");

function bytesOf(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function inflated(base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("deflate"));
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
  for (const [at, name] of ["style", "script"].entries()) {
    const element = document.createElement(name);
    element.textContent = new TextDecoder().decode(await inflated(lines[at]));
    document.head.append(element);
  }
}

load();
