"""What heads do: the kinds, the keys that each attends to, and how heads are held against them."""
