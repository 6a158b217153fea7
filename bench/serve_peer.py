#!/usr/bin/env python3
"""plait serve beside llama.cpp on this machine: the same shape, threads and prompts, in turn.

  bench/serve_peer.py --peer LLAMA_BUILD/bin --gguf qwen3-0.6b.gguf
  bench/serve_peer.py --peer ... --gguf ... --rows prefill,decode --rounds 3
  bench/serve_peer.py --peer ... --gguf qwen3-8b.gguf --model qwen3-8b.gguf --rows 8b

--gguf is the model that the peer runs (`plait make-model --shape qwen3-0.6b --format gguf`),
--model the same shape for plait (a directory of the 0.6B shape is made when absent). For every row
both programs run in turn, `--rounds` times; each keeps its best, the peer the better of flash
attention on and off. Prints a line a row: plait, the peer, the ratio, and the goal of
docs/serving.md. Needs an idle machine and nothing but Python.
"""

import argparse
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
STREAMS = [1, 2, 4, 8, 16]


def run(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


class Peer:
    def __init__(self, options):
        self.options = options

    def bench(self, *flags, gguf=None):
        """Tokens per second of llama-bench, the better of flash attention on and off."""
        out = run([self.options.peer / "llama-bench", "-m", gguf or self.options.gguf, "-t",
                   self.options.threads, "-fa", "0,1", "-o", "jsonl", "-r", 2, *flags])
        return max(max(json.loads(line)["samples_ts"]) for line in out.splitlines() if line)

    def decode(self, streams, prompt=128, output=32):
        """Tokens per second for each number of streams."""
        best = {}
        for attention in ("on", "off"):
            out = run([self.options.peer / "llama-batched-bench", "-m", self.options.gguf, "-t",
                       self.options.threads, "-fa", attention, "-c",
                       max(streams) * (prompt + output + 8), "-npp", prompt, "-ntg", output, "-npl",
                       ",".join(map(str, streams)), "--output-format", "jsonl"])
            for line in out.splitlines():
                if line.startswith("{"):
                    row = json.loads(line)
                    best[row["pl"]] = max(best.get(row["pl"], 0), row["speed_tg"])
        return best

    def quantized(self):
        target = pathlib.Path(self.options.gguf).with_suffix(".q8_0.gguf")
        if not target.exists():
            run([self.options.peer / "llama-quantize", self.options.gguf, target, "q8_0"])
        return target

    def serve(self, port):
        return [self.options.peer / "llama-server", "-m", self.options.gguf, "-np", 16, "-c", 32768,
                "-t", self.options.threads, "--port", port, "--no-webui"]


class Plait:
    def __init__(self, options):
        self.options = options

    def bench(self, *flags):
        """Rows of serve_engine."""
        model = ["--model", self.options.model] if self.options.model else []
        out = run([self.options.build / "bench/serve_engine", "--json", "--threads",
                   self.options.threads, *model, *flags])
        return json.loads(out)["rows"]

    def prefill(self, *flags):
        rows = self.bench("--only", "prefill", *flags)
        return max(row["tokens_per_s"] for row in rows if row["what"] == "prefill")

    def decode(self, streams, *flags):
        rows = self.bench("--only", "decode", "--streams", ",".join(map(str, streams)), *flags)
        rows = [row for row in rows if row["what"] == "decode"]
        for row in rows:
            speed, bound = row["tokens_per_s"], row["bound_tokens_per_s"]
            share = f", {speed / bound:.0%} of the bound of {bound:.2f}" if bound else ""
            print(f"    {row['streams']} streams: {speed:.2f} tok/s{share}", flush=True)
        return {row["streams"]: row["tokens_per_s"] for row in rows}

    def serve(self, port):
        model = self.options.model or "/tmp/plait-qwen3-0.6b"
        return [self.options.build / "plait", "serve", "--model", model, "--port", port,
                "--threads", self.options.threads]


def report(name, ours, peer, goal, more_is_better=True):
    ratio = ours / peer if more_is_better else peer / ours
    print(f"{name:44} plait {ours:8.2f}   peer {peer:8.2f}   {ratio:5.2f}x   goal {goal}",
          flush=True)


def best(rounds, first, second):
    """Both in turn; the larger of each."""
    ours = theirs = 0
    for _ in range(rounds):
        ours, theirs = max(ours, first()), max(theirs, second())
    return ours, theirs


def compare_decode(options, plait, peer):
    ours, theirs = {}, {}
    for _ in range(options.rounds):
        for side, figures in ((ours, plait.decode(STREAMS)), (theirs, peer.decode(STREAMS))):
            for n, speed in figures.items():
                side[n] = max(side.get(n, 0), speed)
    goals = {1: "1.4x (AVX2 1.3x)", 8: "2x (AVX2 1.8x)", 16: "2.5x (AVX2 1.9x)"}
    for n in STREAMS:
        report(f"decode, {n} streams, tok/s", ours[n], theirs[n], goals.get(n, "-"))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def with_server(command, port, work):
    server = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 300
        while True:
            try:
                if urllib.request.urlopen(f"http://127.0.0.1:{port}/health").status == 200:
                    break
            except OSError:
                pass
            if time.monotonic() > end or server.poll() is not None:
                sys.exit(f"{command[0]} does not answer /health")
            time.sleep(0.2)
        return work(port)
    finally:
        server.terminate()
        server.wait()


def load(port, *flags):
    return json.loads(run([sys.executable, ROOT / "tools/serve_load.py", "--port", port, "--json",
                           *flags]))


def compare_servers(options, plait, peer):
    def work(port):
        load(port, "--clients", 1, "--prompt", 16, "--output", 8)
        return (load(port, "--clients", 16, "--prompt", 128, "--output", 32),
                load(port, "--clients", 4, "--prompt", 64, "--output", 128, "--burst", 900))
    results = []
    for side in (plait, peer):
        port = free_port()
        results.append(with_server(side.serve(port), port, work))
    (our_load, our_gap), (peer_load, peer_gap) = results
    report("16 clients, 128 in / 32 out, tok/s", our_load["output_tokens_per_s"],
           peer_load["output_tokens_per_s"], "2x (AVX2 1.4x)")
    report("16 clients, TTFT p50, ms", 1e3 * our_load["ttft_s"]["p50"],
           1e3 * peer_load["ttft_s"]["p50"],
           "2x", False)
    report("900-token prompt beside 4: longest gap, ms", our_gap["itl_ms"]["max"],
           peer_gap["itl_ms"]["max"], "8x", False)
    report("900-token prompt beside 4: its TTFT, ms", 1e3 * our_gap["burst_ttft_s"],
           1e3 * peer_gap["burst_ttft_s"], "1x", False)
    report("900-token prompt beside 4: in all, tok/s", our_gap["output_tokens_per_s"],
           peer_gap["output_tokens_per_s"], "1x")


def compare(options):
    plait, peer = Plait(options), Peer(options)
    rounds = options.rounds
    rows = {
        "prefill": lambda: report("prefill 512, tok/s", *best(
            rounds, plait.prefill, lambda: peer.bench("-p", 512, "-n", 0)), "1.6x (AVX2 1.5x)"),
        "decode": lambda: compare_decode(options, plait, peer),
        "depth": lambda: report("decode at depth 8192, tok/s", *best(
            rounds, lambda: plait.decode([1], "--depth", 8192)[1],
            lambda: peer.bench("-p", 0, "-n", 16, "-d", 8192, "-r", 1)), "1.6x"),
        "int8": lambda: (
            report("int8 against q8_0, decode, tok/s", *best(
                rounds, lambda: plait.decode([1], "--quantize", "w8")[1],
                lambda: peer.bench("-p", 0, "-n", 64, gguf=peer.quantized())), "1.25x"),
            report("int8 against our bf16, prefill 512, tok/s", *best(
                rounds, lambda: plait.prefill("--quantize", "w8"), plait.prefill), "0.95x")),
        "server": lambda: compare_servers(options, plait, peer),
        "8b": lambda: (
            report("8B, decode, tok/s", *best(
                1, lambda: plait.decode([1], "--shape", "qwen3-8b")[1],
                lambda: peer.bench("-p", 0, "-n", 16, "-r", 1)), "1.2x"),
            report("8B, prefill 512, tok/s", *best(
                1, lambda: plait.prefill("--shape", "qwen3-8b"),
                lambda: peer.bench("-p", 512, "-n", 0, "-r", 1)), "1.5x")),
    }
    for row in options.rows.split(",") if options.rows else [r for r in rows if r != "8b"]:
        if row not in rows:
            sys.exit(f"unknown row {row}; there are {', '.join(rows)}")
        rows[row]()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=pathlib.Path, required=True, help="folder of llama-bench")
    parser.add_argument("--gguf", type=pathlib.Path, required=True)
    parser.add_argument("--model", default="")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rows", default="", help="prefill,decode,depth,int8,server,8b")
    options = parser.parse_args()
    if not shutil.which(str(options.peer / "llama-bench")):
        sys.exit(f"no llama-bench in {options.peer}")
    compare(options)


if __name__ == "__main__":
    main()
