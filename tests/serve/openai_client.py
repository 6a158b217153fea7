"""Drives a server with the official client: python3 openai_client.py http://127.0.0.1:PORT"""

import sys

import openai

base = sys.argv[1]
client = openai.OpenAI(base_url=base + "/v1", api_key="secret", max_retries=0, timeout=60)
hello = [{"role": "user", "content": "Hello"}]


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def models():
    names = [model.id for model in client.models.list().data]
    expect(names == ["tiny"], names)
    expect(client.models.retrieve("tiny").id == "tiny", "retrieve")


def chat():
    raw = client.chat.completions.with_raw_response.create(
        model="tiny", messages=hello, max_completion_tokens=8, temperature=0,
        extra_headers={"x-request-id": "abc"})
    expect(raw.headers["x-request-id"] == "abc", raw.headers)
    answer = raw.parse()
    expect(answer.object == "chat.completion", answer)
    expect(answer.choices[0].finish_reason in ("length", "stop"), answer)
    expect(answer.usage.completion_tokens <= 8, answer.usage)
    return answer.choices[0].message.content


def chat_stream(whole):
    text, reasons, usage = "", [], None
    stream = client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
        max_tokens=8, temperature=0, stream=True, stream_options={"include_usage": True})
    for chunk in stream:
        if chunk.choices:
            text += chunk.choices[0].delta.content or ""
            reasons += [chunk.choices[0].finish_reason] if chunk.choices[0].finish_reason else []
        else:
            usage = chunk.usage
    expect(text == whole, (text, whole))
    expect(len(reasons) == 1, reasons)
    expect(usage is not None and usage.total_tokens > 8, usage)


def logprobs():
    answer = client.chat.completions.create(
        model="tiny", messages=hello, max_tokens=4, logprobs=True, top_logprobs=3, seed=1)
    content = answer.choices[0].logprobs.content
    expect(len(content) == answer.usage.completion_tokens, content)
    expect(all(len(token.top_logprobs) == 3 and token.logprob <= 0 for token in content), content)


def completions():
    answer = client.completions.create(
        model="tiny", prompt=["a", "b"], n=2, max_tokens=3, logprobs=2, temperature=0,
        extra_body={"ignore_eos": True, "min_tokens": 3, "top_k": 5})
    expect([choice.index for choice in answer.choices] == [0, 1, 2, 3], answer)
    expect(len(answer.choices[0].logprobs.tokens) == 3, answer)
    expect(answer.choices[0].text == answer.choices[1].text, "greedy answers of one prompt")
    ids = client.completions.create(model="tiny", prompt=[72, 105], max_tokens=2)
    expect(ids.usage.prompt_tokens == 2, ids)


def tools():
    answer = client.chat.completions.create(
        model="tiny", messages=hello, max_tokens=2, parallel_tool_calls=False, tool_choice="auto",
        tools=[{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])
    expect(answer.choices[0].message.tool_calls is None, answer)


def errors():
    def raised(kind, **fields):
        try:
            client.chat.completions.create(**({"model": "tiny", "messages": hello} | fields))
        except kind as error:
            return error
        raise AssertionError(f"{fields} was accepted")

    expect(raised(openai.NotFoundError, model="other").code == "model_not_found", "model")
    expect(raised(openai.BadRequestError, temperature=9).param == "temperature", "temperature")
    expect(raised(openai.BadRequestError, messages=[]).param == "messages", "messages")
    long = [{"role": "user", "content": "x" * 5000}]
    expect(raised(openai.BadRequestError, messages=long).code == "context_length_exceeded", "long")
    schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}
    expect(raised(openai.BadRequestError, response_format=schema).param == "response_format", "rf")
    wrong = openai.OpenAI(base_url=base + "/v1", api_key="wrong", max_retries=0)
    try:
        wrong.models.list()
    except openai.AuthenticationError:
        return
    raise AssertionError("a wrong key was accepted")


models()
chat_stream(chat())
logprobs()
completions()
tools()
errors()
print("passed")
