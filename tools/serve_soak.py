#!/usr/bin/env python3
"""Soak of plait serve: requests of random sizes, priorities and kinds, many of them cancelled.

Starts a server (or, with --port, uses a running one), sends the requests from concurrent clients,
and checks that nothing is left behind: the free KV blocks are back where they started, nothing
runs or waits, every answer that was not cut off is whole, and the resident memory at the end is
that after the first quarter. Needs nothing but Python; exit status 1 if a check fails.

  tools/serve_soak.py --plait build/release/plait --model DIR --requests 2000
  tools/serve_soak.py --plait build/release/plait --model DIR -- --layout tp2   # flags of serve
"""

import argparse
import asyncio
import json
import os
import random
import re
import socket
import struct
import subprocess
import sys
import time

# Malformed or out of range; none may cost more than a 4xx.
BAD_BODIES = [
    b"", b"{", b"[]", b'{"prompt": 5}', b'{"prompt": "a", "temperature": -1}',
    b'{"prompt": "a", "n": 5000000}', b'{"prompt": "a", "logprobs": 1000000000}',
    b'{"prompt": "a", "logit_bias": {"99999999": 1}}', b'{"prompt": [99999999]}',
    b'{"prompt": "a", "max_tokens": 0}', b'{"prompt": "\xff"}', b'{"model": "none", "prompt": "a"}',
    b'{"prompt": "a", "response_format": {"type": "json_object"}}',
]


class Tally:
    def __init__(self):
        self.kinds, self.status, self.wrong = {}, {}, []

    def count(self, table, key):
        table[key] = table.get(key, 0) + 1


def request_bytes(options, body):
    head = (f"POST /v1/completions HTTP/1.1\r\nHost: {options.host}\r\n"
            f"Content-Type: application/json\r\nConnection: close\r\n"
            f"Content-Length: {len(body)}\r\n\r\n")
    return head.encode() + body


async def read_answer(reader):
    """Status and body; chunks joined."""
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head.split()[1])
    rest = await reader.read()
    if b"transfer-encoding: chunked" not in head.lower():
        return status, rest
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            return status, body
        body += rest[:length]
        rest = rest[length + 2:]
    raise ConnectionError("the answer ended in the middle")


def check_answer(tally, body, status, text):
    if status in (429, 503):
        return
    if status != 200:
        tally.wrong.append(f"status {status}: {text[:200]}")
        return
    if body.get("stream"):
        events = text.decode().split("\n\n")
        ends = re.findall(r'"finish_reason":"(?:length|stop)"', text.decode())
        if events[-2:] != ["data: [DONE]", ""] or len(ends) != body["n"]:
            tally.wrong.append(f"a stream of {len(events)} events with {len(ends)} ends")
        return
    tokens = json.loads(text)["usage"]["completion_tokens"]
    if body["ignore_eos"] and tokens != body["n"] * body["max_tokens"]:
        tally.wrong.append(f"{tokens} tokens of {body['n']} x {body['max_tokens']}")


def make_body(rng, options):
    length = rng.choice([1, 3, 17, 40, options.longest // 2])
    prompt = [rng.randrange(250) for _ in range(length)]
    if rng.random() < 0.4:  # begins as many others do
        prompt[:32] = range(10, 10 + min(32, length))
    body = {"prompt": prompt, "n": rng.choice([1, 1, 1, 2, 5]), "ignore_eos": rng.random() < 0.8,
            "max_tokens": rng.choice([1, 5, 20, options.longest // 3]),
            "stream": rng.random() < 0.6, "temperature": rng.choice([0, 0.8]),
            "priority": rng.randrange(3), "seed": rng.randrange(1 << 30)}
    if rng.random() < 0.2:
        body["logprobs"] = 3
    if rng.random() < 0.2:
        body["repetition_penalty"] = 1.2
    return body


async def one_request(options, rng, tally):
    kind = rng.choices(["whole", "cut", "early", "reset", "bad", "deadline"],
                       [45, 25, 8, 10, 8, 4])[0]
    tally.count(tally.kinds, kind)
    reader, writer = await asyncio.open_connection(options.host, options.port)
    body = make_body(rng, options)
    try:
        if kind == "bad":
            writer.write(request_bytes(options, rng.choice(BAD_BODIES)))
            status, text = await read_answer(reader)
            tally.count(tally.status, status)
            if not 400 <= status < 500:
                tally.wrong.append(f"a bad request got {status}: {text[:200]}")
            return
        if kind == "deadline":
            body["deadline_s"] = 0.02
        if kind in ("cut", "reset"):
            body |= {"stream": True, "max_tokens": options.longest // 3, "ignore_eos": True}
        writer.write(request_bytes(options, json.dumps(body).encode()))
        await writer.drain()
        if kind == "early":
            await asyncio.sleep(rng.random() * 0.02)
        elif kind in ("cut", "reset"):
            for _ in range(rng.randrange(1, 8)):
                await reader.read(200)
        else:
            status, text = await read_answer(reader)
            tally.count(tally.status, status)
            if kind == "whole":
                check_answer(tally, body, status, text)
        if kind == "reset":
            writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except (asyncio.IncompleteReadError, OSError) as error:
        tally.wrong.append(f"{kind}: {type(error).__name__} {error}")
    finally:
        writer.close()


async def fetch(options, path):
    reader, writer = await asyncio.open_connection(options.host, options.port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    answer = await read_answer(reader)
    writer.close()
    return answer


async def metrics(options):
    _, text = await fetch(options, "/metrics")
    found = re.findall(r"^([a-z_:]+)\{[^}]*\} ([0-9.e+-]+)$", text.decode(), re.M)
    return {name: float(value) for name, value in found}


async def settle(options):
    """The metrics once nothing is being answered."""
    for _ in range(200):
        now = await metrics(options)
        busy = sum(now[name] for name in ("vllm:num_requests_running", "vllm:num_requests_waiting",
                                          "plait:http_requests_active"))
        if busy == 0:
            return now
        await asyncio.sleep(0.05)
    return now


def resident_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) / 1024


async def run(options, pid):
    tally, begin, rng = Tally(), await settle(options), random.Random(options.seed)
    left, done, memory = options.requests, 0, {}

    async def client(seed):
        nonlocal left, done
        own = random.Random(seed)
        while left > 0:
            left -= 1
            await one_request(options, own, tally)
            done += 1
            if done == options.requests // 4 and pid:
                memory["quarter"] = resident_mib(pid)

    start = time.perf_counter()
    await asyncio.gather(*(client(rng.random()) for _ in range(options.clients)))
    seconds = time.perf_counter() - start
    end = await settle(options)
    if pid:
        memory["end"] = resident_mib(pid)
    status, _ = await fetch(options, "/health")
    problems = list(tally.wrong[:20])
    if status != 200:
        problems.append(f"/health is {status}")
    for name in ("plait:kv_blocks_free", "vllm:num_requests_running", "vllm:num_requests_waiting",
                 "plait:http_requests_active"):
        if end[name] != begin[name]:
            problems.append(f"{name} was {begin[name]:g} and is {end[name]:g}")
    growth = memory.get("end", 0) - memory.get("quarter", 0)
    if growth > options.growth_mib:
        problems.append(f"the memory grew by {growth:.1f} MiB after the first quarter")
    print(f"{options.requests} requests in {seconds:.1f} s: {tally.kinds}, answers {tally.status}")
    print(f"free blocks {begin['plait:kv_blocks_free']:g} -> {end['plait:kv_blocks_free']:g}, "
          f"preemptions {end['vllm:num_preemptions_total']:g}, generated "
          f"{end['vllm:generation_tokens_total']:g} tokens")
    if pid:
        print(f"resident after a quarter {memory['quarter']:.1f} MiB, at the end "
              f"{memory['end']:.1f} MiB")
    return problems


def start_server(options, flags):
    command = [options.plait, "serve", "--model", options.model, "--port", "0", "--no-access-log",
               "--max-num-seqs", "8", "--max-num-queued-reqs", "64", *flags]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if found := re.search(r"ready on http://[^:]*:(\d+)", line):
            options.port = int(found[1])
            return server
    sys.exit(f"the server did not start: {' '.join(command)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plait", default="build/release/plait")
    parser.add_argument("--model")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--longest", type=int, default=120, help="tokens, roughly, of a request")
    parser.add_argument("--growth-mib", type=float, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("flags", nargs="*", help="of plait serve, after --")
    options = parser.parse_args()
    server = None if options.port else start_server(options, options.flags)
    try:
        problems = asyncio.run(run(options, server.pid if server else 0))
    finally:
        if server:
            server.terminate()
            status = server.wait(60)
    if server and status != 0:
        problems.append(f"the server ended with status {status}")
    for problem in problems:
        print("wrong:", problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
