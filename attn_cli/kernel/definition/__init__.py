"""Attention as the papers define it, which every faster form is tested against; read `dense` first."""
