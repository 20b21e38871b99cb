"""The folder of a scan: its manifest, sums of finished shards, tables of Parquet, and how they are read again."""
