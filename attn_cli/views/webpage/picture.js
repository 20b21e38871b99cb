// The image that was read, with the weights of the row that is asked over it: a canvas for its patches. In pages with an image alone.

const SIDE = 420; // pixels at most, across and down
const FILM = [0.1, 0.7]; // opacity of the cells with least and with most weight

// The canvas of a text's tokens that are patches, `grid` by rows, in a figure.
function picturesOf(number, asQuery, asKey) {
  return page.texts[number].grids.map((grid) => {
    const figure = document.createElement("figure"), canvas = document.createElement("canvas"), words = document.createElement("figcaption");
    const [, height, width] = page.picture, zoom = SIDE / Math.max(height, width);
    Object.assign(canvas, { grid, words, isQuery: asQuery, isKey: asKey, width: Math.round(width * zoom), height: Math.round(height * zoom) });
    canvas.className = "picture";
    canvas.setAttribute("role", "img");
    canvas.addEventListener("click", (event) => {
      const part = canvas.getBoundingClientRect(), row = grid[Math.floor(((event.clientY - part.top) / part.height) * grid.length)];
      const at = row?.[Math.floor(((event.clientX - part.left) / part.width) * row.length)];
      if (at !== undefined) hold(...ask(at, asQuery));
    });
    figure.append(canvas, words);
    return figure;
  });
}

// The image itself, unpacked once.
function imageItself() {
  if (imageItself.canvas) return imageItself.canvas;
  const [place, height, width] = page.picture, canvas = document.createElement("canvas"), pixels = new Uint8ClampedArray(4 * width * height);
  for (let i = 0; i < width * height; i++) pixels.fill(blob[place + i], 4 * i, 4 * i + 3).fill(255, 4 * i + 3, 4 * i + 4);
  Object.assign(canvas, { width, height });
  canvas.getContext("2d").putImageData(new ImageData(pixels, width, height), 0, 0);
  return (imageItself.canvas = canvas);
}

// Draws every image anew: `list` has the tokens that are read, or that read (turned), with their weights; `asked` whose row or column it is.
function paintPictures(list, asked, turned) {
  const weights = new Map(list);
  for (const canvas of document.querySelectorAll("canvas.picture")) {
    const draw = canvas.getContext("2d"), { grid, width, height } = canvas, high = height / grid.length, wide = width / grid[0].length;
    const isShown = turned ? canvas.isQuery : canvas.isKey, isAsked = turned ? canvas.isKey : canvas.isQuery;
    draw.globalAlpha = 1;
    draw.drawImage(imageItself(), 0, 0, width, height);
    const values = grid.flat().map((at) => Math.abs(weights.get(at) ?? 0)), most = Math.max(...values), sum = values.reduce((all, value) => all + value, 0);
    grid.flat().forEach((at, number) => {
      const left = (number % grid[0].length) * wide, top = Math.floor(number / grid[0].length) * high, part = most ? level(values[number], most, scale()) : 0;
      draw.globalAlpha = FILM[0] + part * (FILM[1] - FILM[0]);
      draw.fillStyle = css(colourOf(part));
      if (isShown) draw.fillRect(left, top, wide, high);
      draw.globalAlpha = 1;
      draw.lineWidth = 3;
      draw.strokeStyle = mark;
      if (isAsked && at === asked.at) draw.strokeRect(left + 1.5, top + 1.5, wide - 3, high - 3);
    });
    canvas.words.textContent = isShown ? `image · ${shown(sum)} on it, at most ${shown(most)}` : "image";
    canvas.setAttribute("aria-label", `The image: ${canvas.words.textContent}`);
  }
}
