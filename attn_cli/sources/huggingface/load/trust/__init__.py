"""Guards against models from elsewhere: their files and their configuration."""
