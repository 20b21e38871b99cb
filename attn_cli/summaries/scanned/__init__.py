"""A scan of a corpus as answers: its heads, one head, and the differences between two scans."""
