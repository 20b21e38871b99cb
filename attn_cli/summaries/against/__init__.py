"""One run against another: the same attention of two texts or two models, row beside row and key beside key."""
