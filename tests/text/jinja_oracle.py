"""Renders cases with python3-jinja2, set up as HF transformers sets it up.

Reads JSON lines {"template", "messages", "tools", "kwargs", "tokens", "add_generation_prompt"} from
the first file and writes JSON lines {"text"} or {"error"} to the second.
"""
import datetime
import json
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def render(case):
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    now = datetime.datetime(2024, 7, 26, 12, 0, 0)
    environment.globals["strftime_now"] = now.strftime
    variables = dict(case.get("tokens") or {})
    variables.update(case.get("kwargs") or {})
    return environment.from_string(case["template"]).render(
        messages=case["messages"], tools=case.get("tools"), documents=None,
        add_generation_prompt=case.get("add_generation_prompt", True), **variables)


def main():
    with open(sys.argv[1], encoding="utf-8") as cases, \
            open(sys.argv[2], "w", encoding="utf-8") as answers:
        for line in cases:
            try:
                answer = {"text": render(json.loads(line))}
            except Exception as error:  # any failure is an answer
                answer = {"error": str(error)}
            answers.write(json.dumps(answer) + "\n")


main()
