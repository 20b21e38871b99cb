// The image that was read, with the weights of the row that is asked over it: a canvas for each grid of its patches. In pages with an image alone.

const SIDE = 420; // pixels at most, across and down
const FILM = [0.1, 0.7]; // opacity of the cells with least and with most weight

// The canvases of a text's tokens that are patches, each in a figure.
function picturesOf(number, asQuery, asKey) {
  return page.texts[number].grids.map((grid) => {
    const figure = document.createElement("figure"), canvas = document.createElement("canvas"), words = document.createElement("figcaption");
    const [left, top, right, bottom] = grid.box, zoom = Math.min(SIDE / (right - left), SIDE / (bottom - top));
    Object.assign(canvas, { grid, zoom, words, isQuery: asQuery, isKey: asKey, width: Math.round((right - left) * zoom), height: Math.round((bottom - top) * zoom) });
    canvas.className = "picture";
    canvas.setAttribute("role", "img");
    canvas.addEventListener("click", (event) => {
      const at = patchAt(canvas, event);
      if (at !== undefined) hold(...ask(at, asQuery));
    });
    figure.append(canvas, words);
    return figure;
  });
}

// The patch under the mouse.
function patchAt(canvas, event) {
  const part = canvas.getBoundingClientRect(), { grid, zoom } = canvas;
  const x = grid.box[0] + ((event.clientX - part.left) / part.width) * (canvas.width / zoom), y = grid.box[1] + ((event.clientY - part.top) / part.height) * (canvas.height / zoom);
  return grid.cells.find(([, left, top, right, bottom]) => left <= x && x < right && top <= y && y < bottom)?.[0];
}

// The image itself, unpacked once.
function imageItself() {
  if (imageItself.canvas) return imageItself.canvas;
  const [place, height, width] = page.picture, canvas = document.createElement("canvas"), pixels = new Uint8ClampedArray(4 * width * height);
  for (let i = 0; i < width * height; i++) pixels.set([blob[place + 3 * i], blob[place + 3 * i + 1], blob[place + 3 * i + 2], 255], 4 * i);
  Object.assign(canvas, { width, height });
  canvas.getContext("2d").putImageData(new ImageData(pixels, width, height), 0, 0);
  return (imageItself.canvas = canvas);
}

// Draws every image anew: `list` has the tokens that are read, or that read (turned), with their weights; `asked` whose row or column it is.
function paintPictures(list, asked, turned) {
  const weights = new Map(list);
  for (const canvas of document.querySelectorAll("canvas.picture")) {
    const draw = canvas.getContext("2d"), { grid, zoom } = canvas, [left, top] = grid.box;
    const isShown = turned ? canvas.isQuery : canvas.isKey, isAsked = turned ? canvas.isKey : canvas.isQuery;
    draw.setTransform(1, 0, 0, 1, 0, 0);
    draw.fillStyle = "#808080"; // beyond the edges of the image
    draw.fillRect(0, 0, canvas.width, canvas.height);
    draw.setTransform(zoom, 0, 0, zoom, -left * zoom, -top * zoom);
    draw.filter = "grayscale(1)";
    draw.drawImage(imageItself(), 0, 0);
    draw.filter = "none";
    const values = grid.cells.map(([at]) => Math.abs(weights.get(at) ?? 0)), most = Math.max(...values), sum = values.reduce((all, value) => all + value, 0);
    if (isShown) grid.cells.forEach(([, ...edges], at) => fillCell(draw, edges, most ? level(values[at], most, scale()) : 0));
    draw.globalAlpha = 1;
    const own = isAsked ? grid.cells.find(([at]) => at === asked.at) : undefined;
    if (own) frameCell(draw, own.slice(1), 3 / zoom);
    canvas.words.textContent = isShown ? `${grid.name} · ${shown(sum)} on it, at most ${shown(most)}` : grid.name;
    canvas.setAttribute("aria-label", `The image: ${canvas.words.textContent}`);
  }
}

function fillCell(draw, [left, top, right, bottom], part) {
  draw.globalAlpha = FILM[0] + part * (FILM[1] - FILM[0]);
  draw.fillStyle = css(colourOf(part));
  draw.fillRect(left, top, right - left, bottom - top);
}

function frameCell(draw, [left, top, right, bottom], width) {
  draw.lineWidth = width;
  draw.strokeStyle = mark;
  draw.strokeRect(left + width / 2, top + width / 2, right - left - width, bottom - top - width);
}
