"""What attention writes into the residual stream: W_O, norms, the parts of a logit."""
