"""Direct logit contributions of a type's heads, known or not: `direct`, the column of `attn knock`.

all  every head's part is known; parts and rest add up to the logit
no   the check that failed, without the layer's number
"""

import re

from transformers import PreTrainedModel

from attn_cli.errors import AttnError
from tests.architectures.inputs import Inputs
from tests.architectures.knock import prompt_of, speaking

_PATH = re.compile(
    r"^[\w.]*\.\d[\w.]*: |\b(?:layer|block) [\w.]*\d[\w.]*(?: \([\w. ]*\))?:? ?|\b\w+(?:\.\w+)*\.\d+[\w.]*:? ?"
)


def direct_parts(model: PreTrainedModel, inputs: Inputs) -> str:
    """The answer "all", or "no" with the reason, for a type that predicts next tokens; "" for others."""
    if not model.can_generate():
        return ""
    source = speaking(model)
    prompt = prompt_of(inputs)
    try:
        experiment = source.experiment(prompt)
        if experiment.target is None:
            return ""
        source.logit_parts(prompt, experiment)
    except AttnError as error:
        return f"no: {_PATH.sub('', error.message).strip()}"
    except Exception as error:  # of any type; it is the model's own code that failed
        return f"no: {type(error).__name__}"
    return "all"
