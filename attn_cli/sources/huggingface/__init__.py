"""Hugging Face models: loading them safely, and seeing their attention in the forward pass. Only here is torch."""
