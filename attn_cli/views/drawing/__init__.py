"""What answers are drawn with: heat maps, tables, bars, and labels that can do a terminal no harm."""
