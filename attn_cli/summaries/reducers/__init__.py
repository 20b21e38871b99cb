"""Reducers: what is computed from a call's bands as they pass, one idea per file."""
