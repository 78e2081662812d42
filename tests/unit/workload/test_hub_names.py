"""Fine-tuned models of the Hugging Face Hub are recognised by the model that they were made from."""

from __future__ import annotations

import pytest

from gpuwise.core.errors import UnknownName
from gpuwise.workload.capture.huggingface.configs import find_config, is_listed
from gpuwise.workload.capture.huggingface.hub_names import _bases, relative_of
from gpuwise.workload.capture.huggingface.known import table
from gpuwise.workload.capture.request import Request
from gpuwise.workload.find import check_name, resolved


@pytest.mark.parametrize(
    ("name", "row", "built"),
    [
        ("roberta-large-mnli", "roberta-large", "RobertaForSequenceClassification"),
        ("cardiffnlp/twitter-roberta-base-sentiment", "roberta-base", "RobertaForSequenceClassification"),
        ("philschmid/MiniLM-L6-H384-uncased-sst2", "MiniLM-L6-H384-uncased", "BertForSequenceClassification"),
        ("distilbert/distilbert-base-uncased-finetuned-sst-2-english", "distilbert-base-uncased", "DistilBertForSequenceClassif"),
        ("deepset/xlm-roberta-large-squad2", "xlm-roberta-large", "XLMRobertaForQuestionAnswering"),
        ("dslim/bert-base-NER", "bert-base-cased", "BertForTokenClassification"),
        ("sentence-transformers/all-mpnet-base-v2", "microsoft/mpnet-base", "MPNetForSequenceClassification"),
        ("BAAI/bge-large-en-v1.5", "bert-large-uncased", "BertForSequenceClassification"),
        ("facebook/bart-large-cnn", "facebook/bart-large", "BartForConditionalGeneration"),
        ("MoritzLaurer/DeBERTa-v3-large-mnli-fever-anli", "microsoft/deberta-v3-large", "DebertaV2ForSequenceClassification"),
    ],
)
def test_a_fine_tuned_model_has_the_sizes_of_the_model_in_its_name(name: str, row: str, built: str) -> None:
    found, base = find_config(f"hf:{name}"), find_config(f"hf:{row}")
    assert found.config["architectures"][0].startswith(built)
    assert {**found.config, "architectures": 0} == {**base.config, "architectures": 0}
    assert any(f"the sizes are those of {row}" in note for note in found.notes)
    assert is_listed(name)


@pytest.mark.parametrize(
    "name", ["biobert-base-uncased-x", "me/tiny-random-bert-base-uncased", "my-network", "bert-large", "../roberta-base-x"]
)
def test_a_part_of_a_word_is_no_name(name: str) -> None:
    assert not is_listed(name)
    assert name.startswith("..") or relative_of(name) is None


def test_every_other_name_stands_for_a_row_of_the_table() -> None:
    assert set(_bases().values()) <= set(table())


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("roberta-large-mnli", "hf:roberta-large-mnli"),
        ("FacebookAI/roberta-large", "FacebookAI/roberta-large"),  # a built-in model, which needs no capture
        ("albert-base-v2", "hf:albert-base-v2"),
        ("openai/clip-vit-large-patch14", "hf:openai/clip-vit-large-patch14"),
        ("roberta-large", "roberta-large"),
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("nonsense", "nonsense"),
    ],
)
def test_a_name_without_prefix_is_looked_up_in_the_table(name: str, other: str) -> None:
    assert resolved(Request(model=name)).model == other


def test_other_names_are_still_refused() -> None:
    with pytest.raises(UnknownName):
        check_name("rober-large-mnli")
    check_name("roberta-large-mnli")
