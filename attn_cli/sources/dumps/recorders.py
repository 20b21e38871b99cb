"""The lines to paste into another engine, which save what it sees of a text as a dump."""

from typing import NamedTuple


class Recorder(NamedTuple):
    """A script to paste into another engine, such as vLLM, which saves what it computes of a text.

    tried  the version of the engine that the script ran with; "" for one that was never run
    """

    script: str
    tried: str


_TORCH = '''
import torch
from safetensors.torch import save_file

def recorded(model, ids, file, keep=lambda name: True):
    """Run a torch model on a list of ids and save what the modules of its layers return."""
    seen = {"tokens": torch.tensor(ids)}
    def note(name):
        def hook(module, args, output):
            x = output[0] if isinstance(output, tuple) else output
            if isinstance(x, torch.Tensor) and x.is_floating_point() and keep(name):
                seen[name] = x.detach().to("cpu").clone().contiguous()
        return hook
    hooks = [m.register_forward_hook(note(name)) for name, m in model.named_modules() if name]
    with torch.no_grad():
        model(torch.tensor([ids], device=next(model.parameters()).device))
    for hook in hooks:
        hook.remove()
    save_file(seen, file)

recorded(model, ids, "mine.safetensors")
'''

_JAX = '''
import jax, jax.numpy as jnp, numpy as np

def recorded(model, variables, ids, file):
    """Run a flax.linen model on a list of ids and save what its modules return."""
    _, state = model.apply(variables, jnp.array([ids]), capture_intermediates=True, mutable=["intermediates"])
    seen = {"tokens": np.array(ids)}
    for path, x in jax.tree_util.tree_flatten_with_path(state["intermediates"])[0]:
        names = [str(getattr(key, "key", getattr(key, "idx", key))) for key in path]
        name = ".".join(part for part in names if part not in ("__call__", "0"))
        if jnp.issubdtype(x.dtype, jnp.floating) and name not in seen:
            seen[name or "logits"] = np.asarray(x, np.float32)
    np.savez(file, **seen)

recorded(model, variables, ids, "mine.npz")
'''

_MLX = '''
import mlx.core as mx

def recorded(model, ids, file):
    """Run an mlx-lm model on a list of ids and save what each layer and its attention return."""
    seen = {"tokens": mx.array(ids)}
    def watch(module, name):
        kind = type(module)
        def call(self, *args, **kwargs):
            output = kind.__call__(self, *args, **kwargs)
            seen[name] = output[0] if isinstance(output, tuple) else output
            return output
        module.__class__ = type(kind.__name__, (kind,), {"__call__": call})
    for i, layer in enumerate(model.layers):
        watch(layer, f"layers.{i}.l_out")
        for part in ("self_attn", "mlp", "input_layernorm", "post_attention_layernorm"):
            if part in layer:
                watch(layer[part], f"layers.{i}.{part}")
    seen["logits"] = model(mx.array([ids]))
    mx.save_safetensors(file, {name: x.astype(mx.float32) if name != "tokens" else x for name, x in seen.items()})

recorded(model, ids, "mine.safetensors")
'''

_VLLM = """
import torch
from safetensors.torch import save_file
from vllm import LLM, SamplingParams, TokensPrompt

llm = LLM(MODEL, enforce_eager=True, enable_prefix_caching=False)  # with VLLM_ENABLE_V1_MULTIPROCESSING=0 set
seen = {"tokens": torch.tensor(ids)}

def watch(model):
    def note(name):
        def hook(module, args, output):
            x = output[0] if isinstance(output, tuple) else output
            if isinstance(x, torch.Tensor) and x.is_floating_point() and x.shape[0] == len(ids) and name not in seen:
                seen[name] = x.detach().float().cpu().clone()
        return hook
    for name, module in model.named_modules():
        if name.endswith(("qkv_proj", "self_attn.attn", "o_proj", "input_layernorm", "mlp", "model.norm")):
            module.register_forward_hook(note(name))

llm.apply_model(watch)
llm.generate(TokensPrompt(prompt_token_ids=ids), SamplingParams(max_tokens=1))
save_file({name: x.contiguous() for name, x in seen.items()}, "mine.safetensors")
"""

_LLAMA_CPP = """
import ctypes, llama_cpp, numpy as np

lib, seen = llama_cpp.llama_cpp._lib, {"tokens": np.array(ids)}
lib.ggml_get_name.restype, lib.ggml_nelements.restype = ctypes.c_char_p, ctypes.c_int64
lib.ggml_nbytes.restype = ctypes.c_size_t
for f in ("ggml_get_name", "ggml_nelements", "ggml_nbytes"):
    getattr(lib, f).argtypes = [ctypes.c_void_p]
lib.ggml_backend_tensor_get.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
WANTED = ("attn_norm-", "Qcur-", "Kcur-", "Vcur-", "kqv_out-", "ffn_inp-", "ffn_norm-", "ffn_out-", "l_out-",
          "result_norm", "result_output")

@llama_cpp.ggml_backend_sched_eval_callback
def note(tensor, ask, user):
    name = lib.ggml_get_name(tensor).decode()
    wanted = name.startswith(WANTED) and "(" not in name
    if wanted and not ask and lib.ggml_nbytes(tensor) == 4 * lib.ggml_nelements(tensor):
        x = np.empty(lib.ggml_nelements(tensor), np.float32)
        lib.ggml_backend_tensor_get(tensor, x.ctypes.data, 0, x.nbytes)
        seen[name] = x.reshape(-1, x.size // len(ids)) if x.size % len(ids) == 0 else x[None]
    return wanted or not ask

params = llama_cpp.llama_context_default_params()
params.cb_eval, params.n_ctx, params.n_batch = note, len(ids), len(ids)
model = llama_cpp.llama_load_model_from_file(FILE.encode(), llama_cpp.llama_model_default_params())
context = llama_cpp.llama_new_context_with_model(model, params)
tokens = (llama_cpp.llama_token * len(ids))(*ids)
llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, len(ids)))
np.savez("mine.npz", **seen)
"""

RECORDERS = {
    "torch": Recorder(_TORCH, "torch 2"),
    "jax": Recorder(_JAX, "flax 0.12"),
    "mlx": Recorder(_MLX, ""),
    "vllm": Recorder(_VLLM, ""),
    "llama.cpp": Recorder(_LLAMA_CPP, ""),
}


def recorder_text(name: str) -> str:
    """The script for the engine `name`, which saves what it computes of a text.

    A line before it says what to set and whether it was tried.
    """
    recorder = RECORDERS[name]
    state = f"tried with {recorder.tried}" if recorder.tried else "never run yet"
    return f"# for {name}, {state}; ids is the list of the text's tokens\n{recorder.script.strip()}\n"
