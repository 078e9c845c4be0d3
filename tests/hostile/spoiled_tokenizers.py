"""A ``tokenizer.json`` that makes texts longer without bound or takes for ever: (how to spoil one, what is said)."""

import base64
import struct
from collections.abc import Callable
from typing import Any


def sequence(component: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Parts one after the other."""
    children = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers"}
    children |= {"post_processor": "processors", "decoder": "decoders"}
    return {"type": "Sequence", children[component]: parts}


def with_parts(component: str, *parts: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    """Put parts into a component."""
    return lambda spec: spec.update({component: sequence(component, list(parts))})


def replacing(old: str, new: str, kind: str = "String") -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: old}, "content": new}


def of_bytes(space: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": space, "trim_offsets": True, "use_regex": False}


def of_words(sign: str = "▁") -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": sign, "prepend_scheme": "always", "split": True}


def splitting(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def template(*pieces: str, ids: list[int] | None = None) -> dict[str, Any]:
    """Pieces are "A" for the text and anything else for a special token."""
    made = [
        {"Sequence" if piece in "AB" else "SpecialToken": {"id": piece, "type_id": 0}} for piece in pieces
    ]  # fmt: skip
    special = {"x": {"id": "x", "ids": ids or [0], "tokens": ["a"] * len(ids or [0])}}
    return {"type": "TemplateProcessing", "single": made, "pair": [*made, *made], "special_tokens": special}


def nested(component: str, depth: int, part: dict[str, Any]) -> dict[str, Any]:
    """One part in a sequence of two, twice in a sequence of two, and so on."""
    for _ in range(depth):
        part = sequence(component, [part, part])
    return part


def charsmap(length: int) -> str:
    """Rules by which "a" becomes a text of that length, as a trie of Darts."""
    units = [0] * 512
    units[0] = 256 << 10  # the root: its children stand at 256 ^ letter
    units[256 ^ 97] = 97 | 1 << 8 | ((256 ^ 97) ^ 480) << 10  # it ends a rule; its own children stand at 480
    units[480] = 1 << 31  # the place of what replaces it
    trie = struct.pack("<512I", *units)
    return base64.b64encode(struct.pack("<I", len(trie)) + trie + b"x" * length + b"\0").decode()


def added(count: int) -> Callable[[dict[str, Any]], None]:
    """So many tokens beside the vocabulary."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    rows = [{"id": 40 + number, "content": f"<{number}>", **flags} for number in range(count)]
    return lambda spec: spec.update(added_tokens=rows)


ELSEWHERE = None
"""Used in a process of its own, within its limits, or refused there."""
SPOILED: dict[str, tuple[Callable[[dict[str, Any]], Any], str | None]] = {
    "40 replacements": (with_parts("normalizer", *[replacing("a", "aa")] * 40), ELSEWHERE),
    "40 replacements, one unlike the other": (
        with_parts("normalizer", *[replacing(chr(97 + n % 2), chr(97 + (n + 1) % 2) * 2) for n in range(40)]),
        ELSEWHERE,
    ),
    "1,000 prefixes": (with_parts("normalizer", *[{"type": "Prepend", "prepend": "aaaa"}] * 1000), ELSEWHERE),
    "prefixes that are replaced": (
        with_parts("normalizer", *[{"type": "Prepend", "prepend": "a"}, replacing("a", "aaa")] * 9),
        ELSEWHERE,
    ),
    "10 MB in one replacement": (with_parts("normalizer", replacing("a", "b" * 10**7)), ELSEWHERE),
    "10 MB in one prefix": (
        lambda spec: spec.update(normalizer={"type": "Prepend", "prepend": "b" * 10**7}),
        ELSEWHERE,
    ),
    "a pattern that is everywhere": (with_parts("normalizer", replacing("", "ab" * 400, "Regex")), ELSEWHERE),
    "sequences in sequences": (
        lambda spec: spec.update(normalizer=nested("normalizer", 12, replacing("a", "aa"))),
        ELSEWHERE,
    ),
    "bytes of bytes": (
        with_parts("normalizer", *[{"type": "ByteLevel"}] * 40),
        ELSEWHERE,
    ),
    "bytes of bytes, later": (
        with_parts("pre_tokenizer", *[of_bytes(True)] * 40),
        ELSEWHERE,
    ),
    "spaces of spaces": (
        with_parts(
            "pre_tokenizer",
            *map(of_words, "▁_" * 20),
        ),
        ELSEWHERE,
    ),
    "written out again and again": (
        with_parts("normalizer", *[part for _ in range(5) for part in (replacing(" ", "ﷺ"), {"type": "NFKC"})]),
        ELSEWHERE,
    ),
    "rules of SentencePiece": (
        lambda spec: spec.update(normalizer={"type": "Precompiled", "precompiled_charsmap": charsmap(10**6)}),
        ELSEWHERE,
    ),
    "decoder: 40 replacements": (with_parts("decoder", *[replacing("a", "aa")] * 40), ELSEWHERE),
    "decoder: 10 MB": (with_parts("decoder", replacing("a", "b" * 10**7)), ELSEWHERE),
    "decoder: a suffix that is nothing": (
        with_parts("decoder", *[{"type": "BPEDecoder", "suffix": ""}] * 40),
        ELSEWHERE,
    ),
    "the text twice, 40 times": (with_parts("post_processor", *[template("A", "A")] * 40), ELSEWHERE),
    "a template of 20,000 texts": (lambda spec: spec.update(post_processor=template(*"A" * 20_000)), ELSEWHERE),
    "a template of 20,000 tokens": (
        lambda spec: spec.update(post_processor=template("A", "x", ids=[0] * 20_000)),
        ELSEWHERE,
    ),
    "a pattern of 2^n ways": (with_parts("pre_tokenizer", splitting("(a+)+b")), ELSEWHERE),
    "a pattern of n^2 ways": (with_parts("pre_tokenizer", splitting("a+$")), ELSEWHERE),
    "a pattern of n^3 ways": (with_parts("normalizer", replacing("e*e*e*q", "", "Regex")), ELSEWHERE),
    "a pattern of 10 MB": (with_parts("pre_tokenizer", splitting("a|" * 5 * 10**6)), ELSEWHERE),
    "70,000 added tokens": (added(70_000), "added_tokens: found 70000"),
    "a token of 1 MB": (lambda spec: spec["model"]["vocab"].update({"b" * 10**6: 38}), "a token has 1000000 bytes"),
    "words of any length": (
        lambda spec: spec["model"].update(
            type="WordPiece", max_input_chars_per_word=10**12, continuing_subword_prefix="#"
        ),
        ELSEWHERE,
    ),
}  # fmt: skip

PATTERNS = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r" ?[^(\s|[.,!?…。，、।۔،])]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯ]+",
    r"[0-9][0-9][0-9]|\s+|\p{N}",
    r" {2,}",
    r"\s+",
]
"""Those of GPT-2, Llama 3 and Qwen, GPT-4o, BLOOM, DeepSeek and T5."""
