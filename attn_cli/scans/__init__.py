"""Numbers of every head over a corpus: a part of its documents is a Parquet file, and answers are queries over all.

The folder of a scan holds scan.json (what is scanned, and how), part-00000.parquet and so on, with a row for every
document and head. A part's file is there when the part is done, whoever made it; rejects-00000.parquet beside it names
the records of the part that could not be scanned.
"""
