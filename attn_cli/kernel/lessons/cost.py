"""The cost of one attention layer of any variant, in multiplications and in numbers that a cache keeps."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LayerSizes:
    """The sizes of one attention layer."""

    heads: int
    kv_heads: int
    d: int
    e: int
    width: int = 0
    rank: int = 0
    shared: int = 0
    window: int | None = None

    @property
    def cached(self) -> int:
        """Numbers that a cache keeps per token: keys and values of every key head, or the latent."""
        return self.rank + self.shared if self.rank else self.kv_heads * (self.d + self.e)

    def kept(self, tokens: int) -> int:
        """Numbers that the KV cache keeps after so many tokens, all heads together; of a window its last ones alone."""
        return self.cached * self.visible(tokens)

    def visible(self, tokens: int) -> int:
        """Number of keys that the last of so many tokens may attend to."""
        return tokens if self.window is None else min(tokens, self.window)

    def cells(self, n: int, m: int) -> int:
        """How many pairs of query and key, of n x m, are not masked, in one head."""
        past = m - n
        longest = m if self.window is None else min(m, self.window)
        short = max(0, min(n, longest - past - 1))  # rows that see fewer keys than the window
        return short * past + short * (short + 1) // 2 + (n - short) * longest

    @property
    def projections(self) -> int:
        """Multiplications of W_Q, W_K, W_V and W_O for one token (of latents: the down- and up-projections)."""
        if not self.width:
            return 0
        query, back = self.width * self.heads * self.d, self.heads * self.e * self.width
        if self.rank:
            inner = self.d - self.shared
            return query + back + self.width * self.cached + self.rank * self.heads * (inner + self.e)
        return query + back + self.width * self.kv_heads * (self.d + self.e)

    def whole(self, n: int) -> int:
        """Multiplications of a pass over n tokens: projections and unmasked products."""
        return n * self.projections + self.heads * self.cells(n, n) * (self.d + self.e)  # q kᵀ, weights times v

    def step(self, tokens: int) -> int:
        """Multiplications of one decoding step: for the last of so many tokens, with the others in the KV cache."""
        if self.rank:
            inner = self.d - self.shared
            absorbed = self.heads * self.rank * (inner + self.e)
            projections = self.width * (self.heads * self.d + self.cached + self.heads * self.e) if self.width else 0
            return projections + absorbed + self.step_reads(tokens)
        return self.projections + self.step_reads(tokens)

    def step_reads(self, tokens: int) -> int:
        """Multiplications of a decoding step that read the KV cache: q kᵀ and weights times v, no projections."""
        width = self.cached + self.rank if self.rank else self.d + self.e
        return self.heads * self.visible(tokens) * width
