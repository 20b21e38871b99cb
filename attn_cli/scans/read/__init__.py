"""Documents as a model reads them: shards of a corpus, texts as tokens, and records that can't be read."""
