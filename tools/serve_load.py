#!/usr/bin/env python3
"""Load of concurrent clients on an OpenAI-compatible server, with the times that users feel.

Needs nothing but Python. Each client sends one streaming request after another with a prompt of
random token ids, so no prefix is shared.

  tools/serve_load.py --port 8000 --clients 16 --requests 32 --prompt 128 --output 32
  tools/serve_load.py --port 8000 --clients 4 --output 128 --burst 900   # a long prompt arrives
  tools/serve_load.py --port 8000 --clients 64 --no-retry                # how admission answers

Prints output tokens per second, percentiles of the time to the first token (TTFT) and between
tokens (ITL), and how many requests were refused with which status. Other servers work too if they
take token ids as `prompt`; --text sends words instead.
"""

import argparse
import asyncio
import json
import random
import sys
import time


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


class Result:
    def __init__(self):
        self.ttft, self.gaps, self.tokens, self.refused, self.failed = [], [], 0, {}, 0
        self.refusal_s = []


async def read_head(reader):
    status = int((await reader.readline()).split()[1])
    headers = {}
    while (line := (await reader.readline()).strip()) != b"":
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    return status, headers


async def read_events(reader):
    """Yields the data of each event of a chunked stream."""
    pending = b""
    while True:
        size = int((await reader.readline()).strip() or b"0", 16)
        chunk = await reader.readexactly(size)
        await reader.readline()
        pending += chunk
        while b"\n\n" in pending:
            event, pending = pending.split(b"\n\n", 1)
            yield event.removeprefix(b"data: ")
        if size == 0:
            return


async def one_request(options, body, result):
    """Returns the Retry-After of a refusal, or None."""
    start = time.perf_counter()
    reader, writer = await asyncio.open_connection(options.host, options.port)
    key = f"Authorization: Bearer {options.key}\r\n" if options.key else ""
    text = json.dumps(body).encode()
    writer.write(f"POST /v1/completions HTTP/1.1\r\nHost: {options.host}\r\n{key}"
                 f"Content-Type: application/json\r\nConnection: close\r\n"
                 f"Content-Length: {len(text)}\r\n\r\n".encode() + text)
    try:
        status, headers = await read_head(reader)
        if status != 200:
            result.refused[status] = result.refused.get(status, 0) + 1
            result.refusal_s.append(time.perf_counter() - start)
            return float(headers.get("retry-after", 1))
        last = None
        async for data in read_events(reader):
            now = time.perf_counter()
            if data == b"[DONE]":
                break
            chunk = json.loads(data)
            if "error" in chunk:
                result.failed += 1
            elif chunk["choices"]:
                (result.ttft if last is None else result.gaps).append(now - (last or start))
                last = now
                result.tokens += 1
        return None
    finally:
        writer.close()


def make_body(options, rng, prompt_tokens):
    if options.text:
        prompt = " ".join(rng.choice(["red", "blue", "one", "two", "cat", "dog"])
                          for _ in range(prompt_tokens))
    else:
        prompt = [rng.randrange(options.vocab) for _ in range(prompt_tokens)]
    body = {"prompt": prompt, "max_tokens": options.output, "stream": True, "ignore_eos": True,
            "temperature": 0}
    return body | ({"model": options.model} if options.model else {})


async def client(options, index, jobs, result):
    rng = random.Random(options.seed * 1000 + index)
    while jobs:
        jobs.pop()
        body = make_body(options, rng, options.prompt)
        while (wait := await one_request(options, body, result)) is not None and options.retry:
            await asyncio.sleep(wait)


async def burst(options, result):
    await asyncio.sleep(options.burst_after)
    body = make_body(options, random.Random(options.seed), options.burst)
    body["max_tokens"] = 8
    await one_request(options, body, result)


async def run(options):
    result, long = Result(), Result()
    jobs = [None] * (options.requests or options.clients)
    start = time.perf_counter()
    work = [client(options, i, jobs, result) for i in range(options.clients)]
    if options.burst:
        work.append(burst(options, long))
    await asyncio.gather(*work)
    return result, long, time.perf_counter() - start


def report(options, result, long, seconds):
    row = {
        "clients": options.clients, "prompt": options.prompt, "output": options.output,
        "requests": len(result.ttft), "seconds": round(seconds, 2),
        "output_tokens_per_s": round(result.tokens / seconds, 1),
        "ttft_s": {name: round(percentile(result.ttft, share), 3)
                   for name, share in (("p50", .5), ("p90", .9), ("p99", .99))},
        "itl_ms": {name: round(1e3 * percentile(result.gaps, share), 1)
                   for name, share in (("p50", .5), ("p99", .99), ("max", 1))},
        "refused": result.refused, "failed": result.failed,
    }
    if result.refusal_s:
        row["refusal_s_max"] = round(max(result.refusal_s), 3)
    if long.ttft:
        row["burst_ttft_s"] = round(long.ttft[0], 3)
    if options.json:
        print(json.dumps(row))
        return
    for name, value in row.items():
        print(f"{name:22} {value}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--model", default="")
    parser.add_argument("--key", default="")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--requests", type=int, default=0, help="in all; 0: one a client")
    parser.add_argument("--prompt", type=int, default=128, help="tokens")
    parser.add_argument("--output", type=int, default=32, help="tokens")
    parser.add_argument("--vocab", type=int, default=256, help="ids are drawn below it")
    parser.add_argument("--text", action="store_true", help="words in place of token ids")
    parser.add_argument("--burst", type=int, default=0, help="tokens of one prompt in between")
    parser.add_argument("--burst-after", type=float, default=3, help="seconds")
    parser.add_argument("--no-retry", dest="retry", action="store_false",
                        help="count refused requests instead of repeating them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result, long, seconds = asyncio.run(run(options))
    report(options, result, long, seconds)
    return 1 if result.failed or not result.ttft else 0


if __name__ == "__main__":
    sys.exit(main())
