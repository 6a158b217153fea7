#!/usr/bin/env python3
"""Checks that HF transformers loads what plait exports, and computes the same from it.

Needs torch, transformers and safetensors (python3 -m venv V; V/bin/pip install torch transformers).
For each MODEL, an HF directory of a small model, plait trains it on random tokens under --layout,
and the checkpoint is exported. transformers loads the export (no key may be missing or left over),
and its logits, loss, gradients and greedy tokens for other random tokens are compared with plait's
by `plait train verify`. Where MODEL has golden answers, the same is done first with a learning rate
of 0, and the logits of the export must be those of golden.safetensors.

Exit code: 0 all agree, 1 something differs, 2 bad usage.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

ROWS, LENGTH = 3, 40
PROMPT, CONTINUATION = 8, 16


def run(*command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode not in (0, 1):
        sys.exit(f"{' '.join(map(str, command))}\n"
                 f"exited with {result.returncode}:\n{result.stderr}")
    return result


def random_tokens(config, rows, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, config.vocab_size, (rows, LENGTH), generator=generator)


def train_and_export(options, model, folder, lr):
    config = AutoConfig.from_pretrained(model)
    rows = folder / "rows.jsonl"
    tokens = random_tokens(config, 64, 1).tolist()
    rows.write_text("".join(json.dumps({"input_ids": row}) + "\n" for row in tokens))
    steps = 1 if lr == 0 else 3
    trained = run(options.plait, "train", "--model", model, "--finetune", "--data", rows,
                  "--val-fraction", 0, "--seq-len", LENGTH, "--layout", options.layout, "--steps",
                  steps, "--lr", lr, "--lr-decay", "constant", "--threads", 1, "--out",
                  folder / "run")
    if trained.returncode:
        sys.exit(trained.stderr)
    exported = folder / "hf"
    checkpoint = folder / f"run/checkpoints/step-{steps:08d}"
    run(options.plait, "checkpoint", "export", checkpoint, exported)
    return exported


def load(exported):
    model, info = AutoModelForCausalLM.from_pretrained(
        exported, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    for kind, keys in info.items():
        if keys:
            sys.exit(f"{exported}: transformers reports {kind}: {keys}")
    return model.eval()


def write_answers(model, exported):
    """golden.json and golden.safetensors, as `plait train verify` reads them."""
    ids = random_tokens(model.config, ROWS, 2)
    output = model(input_ids=ids, labels=ids, use_cache=False)
    output.loss.backward()
    tensors = {"input_ids": ids, "logits": output.logits.detach(), "loss": output.loss.detach()}
    norm = 0.0
    for name, parameter in model.named_parameters():
        tensors["grad." + name] = parameter.grad
        norm += parameter.grad.double().square().sum().item()
    greedy = []
    for row in ids[:, :PROMPT].tolist():
        tokens = list(row)
        for _ in range(CONTINUATION):
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits
            tokens.append(int(logits[0, -1].argmax()))
        greedy.append({"prompt": row, "greedy": tokens[PROMPT:]})
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()},
              exported / "golden.safetensors")
    (exported / "golden.json").write_text(
        json.dumps({"loss": output.loss.item(), "grad_norm": norm ** 0.5, "greedy": greedy}))


def check_unchanged(options, model, folder):
    """The largest error of the export's logits against golden.safetensors, or None without one."""
    if not (model / "golden.safetensors").exists():
        return None
    golden = load_file(model / "golden.safetensors")
    exported = train_and_export(options, model, folder, 0)
    with torch.no_grad():
        logits = load(exported)(input_ids=golden["input_ids"]).logits
    return ((logits - golden["logits"]).abs().max() / golden["logits"].abs().max()).item()


def check(options, model, folder):
    good = True
    for name in ("unchanged", "trained"):
        (folder / name).mkdir()
    error = check_unchanged(options, model, folder / "unchanged")
    if error is not None:
        good = error <= 1e-6
        print(f"{model.name}: logits of the unchanged export against the golden ones: {error:.1e}")
    exported = train_and_export(options, model, folder / "trained", 2e-3)
    write_answers(load(exported), exported)
    verified = run(options.plait, "train", "verify", exported, "--json")
    report = json.loads(verified.stdout)
    worst = {}
    for part in report["parts"]:
        kind = part["name"].split()[0] if part["name"].startswith("grad ") else part["name"]
        worst[kind] = max(worst.get(kind, 0), part["error"])
    print(f"{model.name}: trained under {options.layout}, transformers against plait: " +
          ", ".join(f"{kind} {value:.1e}" for kind, value in worst.items()))
    good = good and report["passed"]
    print(f"{model.name}: {'ok' if good else 'FAILED'}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", metavar="MODEL", nargs="+", type=pathlib.Path)
    parser.add_argument("--plait", default="build/release/plait")
    parser.add_argument("--layout", default="dp2.tp2.pp2.sp.zero1")
    options = parser.parse_args()
    results = []
    for model in options.models:
        with tempfile.TemporaryDirectory() as folder:
            results.append(check(options, model, pathlib.Path(folder)))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
