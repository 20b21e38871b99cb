"""Statistics of every head over a corpus: documents to shards, shards to sums, sums to tables.

The folder of a scan holds scan.json (what was scanned, how, and how far it has come), a Parquet file of each table
that `attn_cli.scans.kept.tables` describes, and work/ with the sums of finished shards, until all are done.
Files appear whole or not at all.
"""
