"""How a text is continued, from the fields of a request."""

import json
from typing import Any

from headway.errors import InputError
from headway.generation.sampling import Penalties, Sampling
from headway.serving.body import BOOLEAN, Schema, array, integer, number, optional, shown_key, string
from headway.serving.models import Served
from headway.serving.responses import RequestError, invalid
from headway.serving.text_stream import GenerationOptions
from headway.text.chat import MEANT

MOST_TEXTS = 64
"""Texts that one request may ask for, n for each prompt."""
INT64 = 1 << 63
STOP = string(1, 64)
BIAS = {"type": "object", "additionalProperties": number(-100, 100), "maxProperties": 300}
STREAM_OPTIONS = {"type": "object", "properties": {"include_usage": optional(BOOLEAN, False)}}
SAMPLING: dict[str, Schema] = {
    "temperature": optional(number(0, 2), 1.0),
    "top_p": optional(number(0, 1), 1.0),
    "n": optional(integer(1, 8), 1),
    "seed": optional(integer(-INT64, INT64 - 1)),
    "stop": {"anyOf": [optional(STOP), array(STOP, most=4)], "default": None},
    "presence_penalty": optional(number(-2, 2), 0.0),
    "frequency_penalty": optional(number(-2, 2), 0.0),
    "logit_bias": optional(BIAS),
    "stream": optional(BOOLEAN, False),
    "stream_options": optional(STREAM_OPTIONS),
    "top_k": optional(integer(-1, 1 << 30), 0),
    "min_p": optional(number(0, 1), 0.0),
    "repetition_penalty": optional(number(0.01, 100), 1.0),
}
"""The fields that completions and chats share.  top_k, min_p and repetition_penalty are not OpenAI's."""
NEUTRAL: dict[str, Any] = {
    **dict.fromkeys(("add_generation_prompt", "add_special_tokens", "skip_special_tokens", "do_sample"), True),
    **dict.fromkeys(("length_penalty", "tfs_z", "typical_p"), 1.0),
    "spaces_between_special_tokens": True,
    **dict.fromkeys(("continue_final_message", "early_stopping", "ignore_eos", "use_beam_search"), False),
    "include_stop_str_in_output": False,
    **dict.fromkeys(("dry_multiplier", "dynatemp_range", "xtc_probability", "mirostat", "top_a"), 0),
    **dict.fromkeys(("min_length", "min_tokens", "no_repeat_ngram_size"), 0),
    **{name: [] for name in ("bad_words", "functions", "logits_processors", "stop_token_ids", "tools")},
    **dict.fromkeys(("function_call", "reasoning_effort", "tool_choice"), "none"),
    **{"grammar": "", "suffix": "", "modalities": ["text"], "response_format": {"type": "text"}},
}
"""Fields of OpenAI and of other servers that change an answer unless they have this value."""
CHANGING = (
    *("allowed_token_ids", "audio", "chat_template", "chat_template_kwargs", "dimensions", "enable_thinking"),
    *("json_schema", "lora", "n_predict", "prediction", "prompt_logprobs", "reasoning", "regex", "samplers"),
    *("structured_outputs", "thinking", "truncate_prompt_tokens", "verbosity", "web_search_options"),
)
BEGINNINGS = ("dry_", "dynatemp_", "guided_", "xtc_")
"""Fields, and beginnings of fields, that change an answer whatever their value."""
WITHOUT_EFFECT = (
    *("annotations", "include_obfuscation", "metadata", "parallel_tool_calls", "prompt_cache_key"),
    *("prompt_cache_retention", "safety_identifier", "service_tier", "store", "user"),
)
"""OpenAI's fields that change nothing here."""


def check_count(n: int, prompts: int) -> None:
    """Raise RequestError for more texts than one request may ask for."""
    if n * prompts > MOST_TEXTS:
        raise invalid(f"n × prompts is {n * prompts}; one request may ask for at most {MOST_TEXTS} texts", "n")


def generation_options(body: dict[str, Any], served: Served, max_tokens: int, likely: int | None) -> GenerationOptions:
    """How the texts of a request are continued.  Raises RequestError."""
    stop = body["stop"]
    penalties, bias, rows = None, body["logit_bias"] or {}, served.pipe.model.config.vocab_size
    for key in bias:
        if not (key.isascii() and key.isdigit() and len(key) <= 10 and int(key) < rows):
            raise invalid(f"logit_bias: {key[:40]!r} is no id of a token; ids are 0 to {rows - 1:,}", "logit_bias")
    if bias or body["presence_penalty"] or body["frequency_penalty"]:
        by_id = tuple((int(key), float(value)) for key, value in bias.items())
        penalties = Penalties(by_id, body["presence_penalty"], body["frequency_penalty"])
    if not served.batched and (penalties is not None or likely is not None):
        raise invalid(
            f"{served.name} is computed by another engine or is recurrent: it has no logprobs and no penalties",
            "logprobs" if likely is not None else "logit_bias",
            "unsupported_parameter",
        )
    return GenerationOptions(
        _sampling(body),
        max_tokens,
        () if stop is None else (stop,) if isinstance(stop, str) else tuple(stop),
        None if body["seed"] is None else body["seed"] % INT64,
        penalties,
        likely,
    )


def typed_options(body: dict[str, Any]) -> GenerationOptions:
    """The same from the options of the task's own command."""
    return GenerationOptions(_sampling(body), body["max_tokens"], tuple(body["stop"]), body["seed"])


def _sampling(body: dict[str, Any]) -> Sampling:
    names = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
    given = {name: body[name] for name in names}
    if 0 < given["temperature"] < 1e-6:
        given["temperature"] = 0.0  # colder than float32 can be told from greedy
    try:
        return Sampling(**given)
    except InputError as error:
        raise invalid(str(error), str(error).split()[0]) from None


def unsupported(body: dict[str, Any]) -> None:
    """Raise RequestError for a field that would change the answer and that is not offered; null asks for nothing."""
    for name, value in body.items():
        changing = name in NEUTRAL or name in CHANGING or name.startswith(BEGINNINGS)
        if changing and value not in (None, NEUTRAL.get(name)):
            only = f", except as {json.dumps(NEUTRAL[name])}" if name in NEUTRAL else ""
            raise RequestError(400, f"{name} is not supported{only}: leave it out", "unsupported_parameter", name)


def unread(value: Any, schema: Schema, where: str = "") -> list[str]:
    """What the answer to a request warns of: its fields that are not known, unless they are null."""
    warnings = []
    for choice in schema.get("anyOf", [schema]):
        if isinstance(value, list) and "items" in choice:
            for index, item in enumerate(value):
                warnings += unread(item, choice["items"], f"{where}[{index}]")
        elif isinstance(value, dict) and "properties" in choice:
            for key, inside in value.items():
                path = f"{where}.{key}" if where else key
                refused = (*NEUTRAL, *CHANGING) if not where else tuple(MEANT) if inside else ()
                if key in choice["properties"]:
                    warnings += unread(inside, choice["properties"][key], path)
                elif inside is not None and key not in (*WITHOUT_EFFECT, *refused):
                    warnings.append(f"{shown_key(path)} is not known here, and not read")
    return warnings
