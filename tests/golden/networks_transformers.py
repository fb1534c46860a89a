"""Transformers: a 2-layer BERT and a 2-layer GPT-2 of Hugging Face, and torchvision's ViT; without dropout."""
import torch
import torchvision.models as models
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

from cases import Case

TOKENS = 12
VOCABULARY = 50


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = BertForSequenceClassification(BertConfig(
            vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
            max_position_embeddings=TOKENS, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=10))

    def forward(self, input_ids, token_type_ids):
        return self.model(input_ids=input_ids, token_type_ids=token_type_ids,
                          attention_mask=torch.ones_like(input_ids)).logits


class Gpt2(nn.Module):
    """The language model's head shares its weight with the token embedding."""

    def __init__(self):
        super().__init__()
        self.model = GPT2LMHeadModel(GPT2Config(
            vocab_size=VOCABULARY, n_positions=TOKENS, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
            attn_pdrop=0.0, use_cache=False))

    def forward(self, input_ids):
        positions = torch.arange(TOKENS)[None]
        return self.model(input_ids=input_ids, position_ids=positions,
                          attention_mask=torch.ones_like(input_ids)).logits.transpose(1, 2)


def vit():
    network = models.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64,
                                       num_classes=10)
    nn.init.normal_(network.class_token, std=0.1)  # 0 by default
    nn.init.normal_(network.heads.head.weight, std=0.1)
    return network


IDS = ("int", (TOKENS,), 1, VOCABULARY)  # 0 is BERT's padding, whose row PyTorch does not train
CASES = {
    "bert": Case(Bert, {"input_ids": IDS, "token_type_ids": ("int", (TOKENS,), 0, 2)}),
    "gpt2": Case(Gpt2, {"input_ids": IDS}, rows=4, label=("class", (TOKENS,), VOCABULARY)),
    "vit": Case(vit, {"x": ("float", (3, 32, 32))}),
}
