"""From texts, images and audio to the arguments of a model's forward, with a label for every token."""
