"""Writers of reports: one view a file, each for a format or a family of formats of `views/formats.py`."""
