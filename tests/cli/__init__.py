"""The commands, each by its tests, and what all of them share."""
