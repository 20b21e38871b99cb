"""attn inspect: what the overview of a text writes, put together from the results of its calls."""

from dataclasses import replace

from attn_cli.fields import Output
from attn_cli.summaries.answers.kinds import HEADS as KINDS
from attn_cli.summaries.call_fields import LAYERS
from attn_cli.summaries.reducers.heads.head_statistics import HEADS
from attn_cli.summaries.reducers.matrix import MATRICES
from attn_cli.summaries.reducers.received import RECEIVED
from attn_cli.summaries.told.story import STORY
from attn_cli.summaries.told.word_reads import READS

OUTPUT = Output(
    "attn.inspect/3",
    "The overview of a text; its matrix, that of the head that stands out most, is pooled to 64 x 64 at most.",
    (READS, STORY, LAYERS, HEADS, replace(KINDS, optional=True), RECEIVED, MATRICES),
)
