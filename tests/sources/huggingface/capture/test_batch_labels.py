"""Labels of a text's tokens, layer after layer."""

from dataclasses import replace

from attn_cli.call import Place
from attn_cli.prompt import Token
from attn_cli.sources.huggingface.capture.batch_labels import BatchLabels


def test_every_layer_gets_the_same_labels_and_every_text_its_own() -> None:
    labels = BatchLabels([[Token(0, "a"), Token(1, "b")], [Token(0, "c"), Token(1, "d")]], None, encoder_decoder=False)
    place = Place(0, "first", (0,), (0,))
    text = labels.unpadded(place, 2, 2, 2)
    assert [token.text for token in text.queries] == ["a", "b"]
    assert text.queries is text.key_tokens is labels.unpadded(replace(place, layer=1, name="second"), 2, 2, 2).queries
    assert [token.text for token in labels.unpadded(replace(place, text=1), 2, 2, 2).queries] == ["c", "d"]
