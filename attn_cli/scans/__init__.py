"""Statistics of every head over a corpus: documents to shards, shards to sums, sums to tables.

The folder of a scan holds

    scan.json           what was scanned, with which model and options, by which version; how far it has come
    statistics.parquet  a row per head and statistic: its mean over documents, with how certain that is, and quantiles
    kinds.parquet       a row per head and kind: weight and share of the kind's targets, held against a baseline
    distances.parquet   a row per head and range of distances: the share of its weight
    positions.parquet   a row per head and range of key positions: the share of its weight
    tokens.parquet      a row per head, side and rank: the tokens that it attends from and to most often
    parts.parquet       a row per head and part of the documents (a field, or the role of a message): its share
    examples.parquet    a row per head, kind and rank: the strongest cells, one of a document, with their text
    blocks.parquet      a row per head and statistic: its sums over documents in a row, for scans against each other
    rejected.parquet      a row per record that could not be scanned, and why: the first 10,000
    work/               sums of finished shards, until all are done

`attn_cli.scans.kept.tables` says what their columns are. Files appear whole or not at all.
"""
