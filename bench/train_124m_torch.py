"""The peer of bench/train_124m: HF LlamaForCausalLM of the same shape in PyTorch.

Prints one JSON object. Run by bench/train_124m, which makes the environment.
"""
import argparse
import json
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=4)
parser.add_argument("--seq", type=int, default=64)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
args = parser.parse_args()

torch.set_num_threads(args.threads)
torch.manual_seed(0)
config = LlamaConfig(vocab_size=50304, hidden_size=768, intermediate_size=2048,
                     num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=12,
                     max_position_embeddings=1024, tie_word_embeddings=True,
                     attn_implementation="sdpa", use_cache=False)
model = LlamaForCausalLM(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
ids = torch.randint(0, 50257, (args.rows, args.seq))
times = []
for step in range(args.steps + 1):
    start = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bf16"):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    if step > 0:
        times.append(time.perf_counter() - start)
times.sort()
tokens = args.rows * args.seq
print(json.dumps({"torch": torch.__version__, "best_tokens_per_s": tokens / times[0],
                  "median_tokens_per_s": tokens / times[len(times) // 2]}))
