"""Guards against models from elsewhere: their files, their configuration, the time and memory of their tokenizer."""
