"""Parts of screens: heat maps, tables, bars, and labels that can do a terminal no harm."""
