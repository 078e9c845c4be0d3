"""Open places filled in: spellings, several places, long texts, and the numbers of another implementation."""

import pytest
import tokenizers
import torch
import transformers
from tokenizers import AddedToken, pre_tokenizers, processors

import headway
from headway.errors import InputError
from headway.hub.directory import save_model
from headway.models.config import TransformerConfig
from headway.models.heads import MaskedTokenHead
from headway.models.transformer import Encoder
from headway.tasks.masked_lm.pipeline import MaskFiller
from headway.text.train import train_tokenizer

TEXTS = ["the cat sat on a mat while old dogs ran past red doors", "unbelievably, doors sang; a cat ran (past) it"] * 9
OPEN = "the [MASK] sat on a mat"


KINDS = ("wordpiece", "bpe", "word")


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    return {kind: make(tmp_path_factory.mktemp(kind), kind) for kind in KINDS}


def make(directory, kind):
    """A random model in ModernBERT's layout with a tokenizer of a kind."""
    tokenizer = train_tokenizer(TEXTS, kind, 300 if kind == "bpe" else 80, role="encoder")
    torch.manual_seed(3)
    config = TransformerConfig(
        tokenizer.vocab_size + 3, d_model=24, n_layers=2, n_heads=3, d_ff=29, max_length=16, norm="layernorm",
        norm_parameters="weight", activation="gelu", embedding_norm=True, first_norm=False, tied=True,
    )  # fmt: skip
    model = Encoder(config)
    model.head = MaskedTokenHead(config, model.stack.embedding.tokens, activation="gelu", dense_bias=False)
    for p in model.parameters():
        torch.nn.init.normal_(p, std=0.7) if p.dim() > 1 else torch.nn.init.uniform_(p, 0.5, 1.5)
    save_model(model, directory)
    tokenizer.save(directory, max_length=16)
    return directory


@pytest.fixture(scope="module")
def fill(directories):
    pipe = headway.load(directories["wordpiece"])
    assert isinstance(pipe, MaskFiller) and pipe.task == "masked_lm"
    return pipe


def test_one_place_gives_the_likeliest_tokens_best_first(fill):
    found = fill(OPEN, k=7)
    assert len(found) == 7 and len(fill(OPEN)) == 5
    assert all(set(answer) == {"token", "score"} for answer in found)
    scores = [answer["score"] for answer in found]
    assert scores == sorted(scores, reverse=True) and 0 < sum(scores) <= 1
    assert not {"[MASK]", "[PAD]", "[CLS]", "[SEP]", "[UNK]", ""} & {answer["token"] for answer in found}
    assert len(fill(OPEN, k=10_000)) == fill.tokenizer.vocab_size - len(fill.tokenizer.special_ids)


def close(found, expected):
    scores = pytest.approx([answer["score"] for answer in expected], abs=1e-5)
    return [a["token"] for a in found] == [a["token"] for a in expected] and [a["score"] for a in found] == scores


def test_several_places_give_a_list_for_each_and_a_list_of_texts_a_list_of_results(fill):
    several = fill("the [MASK] sat on <mask> mat", k=3)
    assert len(several) == 2 and all(len(place) == 3 for place in several)
    texts = [OPEN, "[MASK]", "a cat ran (past) it while old [MASK] sang", "the [MASK] sat on <mask> mat"]
    together = fill(texts, k=3)
    assert close(together[3][0], several[0]) and close(together[3][1], several[1])
    for text, found in zip(texts[:3], together[:3], strict=True):
        assert close(found, fill(text, k=3))
    assert fill([]) == [] and close(fill([OPEN])[0], fill(OPEN))


def test_other_special_tokens_are_text_and_what_has_no_mask_is_refused(fill):
    body = fill.ids_of("[SEP] the [MASK] [CLS]")[1:-1]
    assert body.count(fill.tokenizer.mask) == 1
    assert not (fill.tokenizer.special_ids - {fill.tokenizer.mask, fill.tokenizer.unknown}) & set(body)
    for text in ("the cat", ["the [MASK]", "the cat"]):
        with pytest.raises(InputError, match=r"'the cat'.*\[MASK\]"):
            fill(text)
    with pytest.raises(InputError, match=r"no \[MASK\]"):
        MaskFiller(fill.model, train_tokenizer(TEXTS, "bpe", 300, role="decoder"))


def test_of_a_long_text_what_is_near_the_place_is_read(fill):
    words = TEXTS[0].split() * 7
    words[40] = "[MASK]"
    near = " ".join(words[40 - 7 : 40 + 7])
    assert close(fill(" ".join(words)), fill(near))
    words[2] = "<mask>"
    first, second = fill(" ".join(words))
    assert close(second, fill(near)) and close(first, fill(" ".join(words[:14])))
    assert len(fill("[MASK] " * 40)) == 40


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", [OPEN, "[MASK]", "old dogs [MASK]; un[MASK] doors"])
def test_scores_are_those_of_transformers_for_both_spellings(directories, kind, text):
    check(directories[kind], text)


def check(directory, text):
    """Tokens and scores against transformers' tokenizer and model, specials left out; both spellings are one."""
    fill = headway.load(directory)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.AutoModelForMaskedLM.from_pretrained(directory).eval()
    inputs = tokenizer(text, return_tensors="pt")
    inputs.pop("token_type_ids", None)
    with torch.no_grad():
        logits = model(**inputs).logits[0][inputs["input_ids"][0] == tokenizer.mask_token_id]
    probabilities = logits.softmax(-1)
    probabilities[:, tokenizer.all_special_ids] = -1
    probabilities[:, len(tokenizer) :] = -1
    found = fill(text, k=3)
    assert found == fill(text.replace("[MASK]", "<mask>"), k=3) == fill(text.replace("<mask>", "[MASK]"), k=3)
    for answers, row in zip(found if isinstance(found[0], list) else [found], probabilities, strict=True):
        best = row.topk(3)
        assert [a["score"] for a in answers] == pytest.approx(best.values.tolist(), abs=1e-5)
        for answer, number in zip(answers, best.indices.tolist(), strict=True):
            token, word = tokenizer.convert_ids_to_tokens(number), tokenizer.decode([number])
            assert answer["token"] == (token if token.startswith("##") else word.strip() or word)


def test_a_model_of_roberta(tmp_path):
    names = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    backend = tokenizers.Tokenizer(tokenizers.models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = tokenizers.decoders.ByteLevel()
    specials = [AddedToken(n, special=True, normalized=False, lstrip=n == "<mask>") for n in names]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=320, special_tokens=specials, initial_alphabet=alphabet)
    backend.train_from_iterator(TEXTS, trainer)
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>",
        pad_token="<pad>", unk_token="<unk>", mask_token=specials[-1],
    )  # fmt: skip
    tokenizer.save_pretrained(tmp_path)
    torch.manual_seed(5)
    config = transformers.RobertaConfig(
        vocab_size=len(tokenizer), hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=29,
        max_position_embeddings=41, pad_token_id=1, type_vocab_size=1, initializer_range=0.7,
    )  # fmt: skip
    transformers.RobertaForMaskedLM(config).save_pretrained(tmp_path)
    check(tmp_path, "the <mask> sat on a mat")
