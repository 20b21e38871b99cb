"""Hugging Face models: loading them safely, and seeing their attention in the forward pass. The only room with torch."""
