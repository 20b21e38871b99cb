"""Attention as the papers define it: dense, readable, the specification that every faster form is tested against."""
