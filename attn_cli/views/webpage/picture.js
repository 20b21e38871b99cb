// The image as the model read it, below the tokens of its patches. In pages with an image alone.

// A box with the image behind a grid, into whose cells the tokens of `rows` come.
function pictureFrame(rows) {
  const [place, height, width] = page.picture, frame = document.createElement("div"), canvas = document.createElement("canvas");
  const pixels = new Uint8ClampedArray(4 * width * height);
  for (let i = 0; i < width * height; i++) pixels.fill(blob[place + i], 4 * i, 4 * i + 3).fill(255, 4 * i + 3, 4 * i + 4);
  Object.assign(canvas, { width, height });
  canvas.getContext("2d").putImageData(new ImageData(pixels, width, height), 0, 0);
  frame.className = "picture";
  frame.setAttribute("role", "group");
  frame.setAttribute("aria-label", "The image");
  frame.style.gridTemplateColumns = `repeat(${rows[0].length}, 1fr)`;
  frame.style.aspectRatio = `${width} / ${height}`;
  frame.append(canvas);
  return frame;
}
