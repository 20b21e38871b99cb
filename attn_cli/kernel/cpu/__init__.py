"""Row statistics in one pass of compiled code, on a processor: without bands, several times as fast."""
