"""A recording of an image and a text, in a file."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from attn_cli.picture import Box, ReadPicture
from attn_cli.prompt import Prompt, Token
from attn_cli.recording.file import save
from tests.views.webpage.recordings import CAUSAL, TEXT, layer_of, masked, recording_of, tokens_of

PATCH = 20  # pixels


def coloured(rows: int, columns: int) -> ReadPicture:
    """A picture of soft colours, with a light and a dark corner."""
    height, width = rows * PATCH, columns * PATCH
    down, across = np.mgrid[:height, :width]
    colours = (across * 255 // width, down * 255 // height, (across * 127 // width + down * 127 // height))
    return ReadPicture(np.stack(colours, axis=-1).astype(np.uint8), height, width)


def recorded_image(file: Path, rows: int, columns: int) -> Path:
    """`file`, a recording of an image of so many patches and of a text that looks at it."""
    count = rows * columns
    patches = [
        Token(at, f"r{row},c{column}", row=row, column=column,
              box=Box(row * PATCH, column * PATCH, (row + 1) * PATCH, (column + 1) * PATCH))
        for at, (row, column) in enumerate(product(range(rows), range(columns)))
    ]  # fmt: skip
    words = (replace(token, index=token.index + count) for token in tokens_of(TEXT, special=False))
    tokens = (*patches, *words)
    picture = coloured(rows, columns)
    prompt = Prompt(TEXT, tokens, files={"image": "cat.png"}, picture=picture)
    save(recording_of(layer_of(0, tokens, rule=masked(CAUSAL)), prompt=prompt), file)
    return file
