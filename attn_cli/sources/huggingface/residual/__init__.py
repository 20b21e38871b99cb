"""Attention's contribution to the residual stream: W_O, norms, the parts of a logit."""
