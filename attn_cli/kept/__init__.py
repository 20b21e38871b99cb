"""Results kept between two commands, in a folder of the user's cache: bounded, private, and never relied on."""
