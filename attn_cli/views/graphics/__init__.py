"""Pictures in terminals that show them: whether one does, and what is written to it then."""
