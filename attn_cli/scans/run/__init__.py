"""A scan under way: in this process or by workers of Ray, within some memory, from the first shard to the tables."""
