"""The models of the survey: torchvision's classification models, and named ones of timm and transformers.

A case builds a module in training mode whose result is a tensor of logits [N, classes, ...]. All dropout and stochastic
depth is 0, so that losses can be compared; weights are random."""
import dataclasses
import inspect
from typing import Callable

import torch
from torch import nn


@dataclasses.dataclass
class Case:
    source: str
    name: str
    build: Callable[[], nn.Module]
    inputs: dict  # name -> ("float", shape of a row) or ("int", shape of a row, least, one more than the largest)
    classes: int = 10
    label_shape: tuple = ()  # of a row
    rows: int = 4  # of a batch
    note: str = ""  # how the configuration differs from the default


def image(side, channels=3):
    return {"x": ("float", (channels, side, side))}


def without_randomness(model):
    for module in model.modules():
        kind = type(module).__name__
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
        if kind == "StochasticDepth":
            module.p = 0.0
        if kind == "DropPath":
            module.drop_prob = 0.0
    return model


class FirstResult(nn.Module):
    """GoogLeNet's and Inception's named tuples: the logits."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x)[0]


# ---- torchvision

TORCHVISION = {  # name -> (side, arguments, note)
    "inception_v3": (96, dict(aux_logits=False, init_weights=False), "96x96 (75 is the least), no auxiliary head"),
    "googlenet": (64, dict(aux_logits=False, init_weights=False), "no auxiliary heads"),
    "maxvit_t": (224, dict(input_size=(224, 224)), "224x224 (its windows are 7x7)"),
    "vit_h_14": (56, dict(image_size=56, num_layers=4), "56x56 (patches are 14x14), 4 layers"),
    "regnet_y_128gf": (64, {}, "about a quarter of the width"),
    "vit_l_16": (64, {}, "6 of 24 layers"),
    "vit_l_32": (64, {}, "6 of 24 layers"),
}


def torchvision_model(name):
    import torchvision
    side, arguments, _ = TORCHVISION.get(name, (64, {}, ""))
    arguments = dict(arguments)
    family = name.split("_")[0]
    if family in ("efficientnet", "convnext"):
        arguments["stochastic_depth_prob"] = 0.0
    if family == "vit" and "image_size" not in arguments:
        arguments["image_size"] = side
    if name == "maxvit_t":  # its constructor sets the probability itself
        model = torchvision.models.MaxVit(
            stem_channels=64, block_channels=[64, 128, 256, 512], block_layers=[2, 2, 5, 2], head_dim=32,
            stochastic_depth_prob=0.0, partition_size=7, input_size=(224, 224), num_classes=10)
    elif name == "regnet_y_128gf":
        from torchvision.models.regnet import BlockParams, RegNet
        model = RegNet(BlockParams.from_init_params(depth=27, w_0=112, w_a=40.2, w_m=2.52, group_width=56, se_ratio=0.25),
                       num_classes=10)
    elif name.startswith("vit_l_"):
        model = torchvision.models.VisionTransformer(
            image_size=64, patch_size=int(name[6:]), num_layers=6, num_heads=16, hidden_dim=1024, mlp_dim=4096,
            num_classes=10)
    elif name == "vit_h_14":
        model = torchvision.models.VisionTransformer(
            image_size=56, patch_size=14, num_layers=4, num_heads=16, hidden_dim=1280, mlp_dim=5120, num_classes=10)
    else:
        model = torchvision.models.get_model(name, weights=None, num_classes=10, **arguments)
    return without_randomness(model)


def torchvision_cases():
    import torchvision
    for name in torchvision.models.list_models(module=torchvision.models):
        side, _, note = TORCHVISION.get(name, (64, {}, ""))
        # The last batch norms see few positions of an image: more images where that is one, or layers are many.
        rows = {"inception_v3": 16, "resnet152": 8}.get(name, 4)
        note = ", ".join(part for part in (note, f"{rows} images" if rows != 4 else "") if part)
        yield Case("torchvision", name, lambda name=name: torchvision_model(name), image(side), rows=rows, note=note)


# ---- timm

TIMM = {  # name -> (side, arguments)
    "vit_tiny_patch16_224": (64, dict(img_size=64, depth=3)),
    "vit_small_patch32_224": (64, dict(img_size=64, depth=2)),
    "deit_tiny_patch16_224": (64, dict(img_size=64, depth=3)),
    "deit3_small_patch16_224": (64, dict(img_size=64, depth=2)),
    "beit_base_patch16_224": (64, dict(img_size=64, depth=2, embed_dim=96, num_heads=4)),
    "eva02_tiny_patch14_224": (56, dict(img_size=56, depth=2)),
    "cait_xxs24_224": (64, dict(img_size=64, depth=3)),
    "xcit_nano_12_p16_224": (64, dict(img_size=64, depth=2)),
    "swin_tiny_patch4_window7_224": (64, dict(img_size=64, window_size=2, embed_dim=24)),
    "swinv2_tiny_window8_256": (64, dict(img_size=64, window_size=2, embed_dim=24)),
    "mixer_s32_224": (64, dict(img_size=64)),
    "resmlp_12_224": (64, dict(img_size=64)),
    "gmlp_ti16_224": (64, dict(img_size=64)),
    "convnext_atto": (64, {}),
    "convnextv2_atto": (64, {}),
    "efficientnet_b0": (64, {}),
    "efficientnet_lite0": (64, {}),
    "tf_efficientnetv2_b0": (64, {}),
    "mobilenetv3_small_050": (64, {}),
    "mobilenetv4_conv_small": (64, {}),
    "regnetx_002": (64, {}),
    "regnety_002": (64, {}),
    "regnetz_005": (64, {}),
    "resnet10t": (64, {}),
    "resnetv2_50": (64, {}),
    "seresnext26d_32x4d": (64, {}),
    "ecaresnet26t": (64, {}),
    "res2net50_14w_8s": (64, {}),
    "densenet121": (64, {}),
    "ghostnet_050": (64, {}),
    "repvgg_a0": (64, {}),
    "mobileone_s0": (64, {}),
    "hardcorenas_a": (64, {}),
    "mnasnet_small": (64, {}),
    "fbnetc_100": (64, {}),
    "lcnet_050": (64, {}),
    "tinynet_e": (64, {}),
    "edgenext_xx_small": (64, {}),
    "mobilevit_xxs": (64, {}),
    "poolformer_s12": (64, {}),
    "convmixer_768_32": (64, {}),
    "inception_next_atto": (64, {}),
    "efficientformer_l1": (224, {}),
    "levit_128s": (224, {}),
    "pit_ti_224": (224, {}),
    "visformer_tiny": (224, {}),
    "twins_pcpvt_small": (64, dict(img_size=64)),
    "coat_lite_tiny": (64, dict(img_size=64)),
    "focalnet_tiny_srf": (64, {}),
    "dla34": (64, {}),
    "hrnet_w18_small": (64, {}),
    "cspresnet50": (64, {}),
    "selecsls42": (64, {}),
    "ese_vovnet19b_slim": (64, {}),
    "starnet_s1": (64, {}),
    "nf_regnet_b0": (64, {}),
}


def timm_model(name):
    import timm
    _, arguments = TIMM[name]
    return without_randomness(timm.create_model(name, pretrained=False, num_classes=10, **arguments))


def timm_cases():
    for name, (side, arguments) in TIMM.items():
        note = ", ".join([f"{side}x{side}"] + [f"{k}={v}" for k, v in arguments.items() if k != "img_size"])
        yield Case("timm", name, lambda name=name: timm_model(name), image(side), note=note)


# ---- transformers

TOKENS = 12
VOCABULARY = 60


def given(argument, x):
    """With a mask, so that causal models do not look for packed sequences, which no exporter can express."""
    return {argument: x, **({"attention_mask": torch.ones_like(x)} if argument == "input_ids" else {})}


class Logits(nn.Module):
    """A model's logits, classes second."""

    def __init__(self, model, argument):
        super().__init__()
        self.model = model
        self.argument = argument

    def forward(self, x):
        logits = self.model(**given(self.argument, x)).logits
        return logits.transpose(1, 2) if logits.dim() == 3 else logits


class Pooled(nn.Module):
    """A linear classifier on the mean of an encoder's last hidden state."""

    def __init__(self, model, argument, width):
        super().__init__()
        self.model = model
        self.argument = argument
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.model(**given(self.argument, x)).last_hidden_state.mean(1))


SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
TEXT = dict(vocab_size=VOCABULARY, max_position_embeddings=32)
# From 3 on: rows of padding tokens are not trained in PyTorch, which no ONNX file says.
IDS = {"input_ids": ("int", (TOKENS,), 3, VOCABULARY)}
LLAMA = dict(SMALL, **TEXT, num_key_value_heads=2, use_cache=False)
VISION = dict(SMALL, image_size=64, patch_size=16)

# name -> (config class, model class, arguments, kind): kind is "lm" (logits a token), "class" (logits), or an
# encoder's width.
TRANSFORMERS = {
    "bert_mlm": ("BertConfig", "BertForMaskedLM", dict(SMALL, **TEXT), "lm"),
    "bert": ("BertConfig", "BertForSequenceClassification", dict(SMALL, **TEXT), "class"),
    "distilbert": ("DistilBertConfig", "DistilBertForSequenceClassification",
                   dict(dim=32, n_layers=2, n_heads=4, hidden_dim=64, **TEXT), "class"),
    "albert": ("AlbertConfig", "AlbertForSequenceClassification", dict(SMALL, **TEXT, embedding_size=16), "class"),
    "roberta": ("RobertaConfig", "RobertaForSequenceClassification", dict(SMALL, **TEXT), "class"),
    "xlm_roberta": ("XLMRobertaConfig", "XLMRobertaForSequenceClassification", dict(SMALL, **TEXT), "class"),
    "electra": ("ElectraConfig", "ElectraForSequenceClassification", dict(SMALL, **TEXT, embedding_size=16), "class"),
    "camembert": ("CamembertConfig", "CamembertForSequenceClassification", dict(SMALL, **TEXT), "class"),
    "mpnet": ("MPNetConfig", "MPNetForSequenceClassification", dict(SMALL, **TEXT), "class"),
    "deberta_v2": ("DebertaV2Config", "DebertaV2ForSequenceClassification",
                   dict(SMALL, **TEXT, relative_attention=True, pos_att_type=["p2c", "c2p"], pooler_hidden_size=32),
                   "class"),
    "mobilebert": ("MobileBertConfig", "MobileBertForSequenceClassification",
                   dict(SMALL, **TEXT, embedding_size=32, intra_bottleneck_size=32), "class"),
    "squeezebert": ("SqueezeBertConfig", "SqueezeBertForSequenceClassification",
                    dict(SMALL, **TEXT, embedding_size=32), "class"),
    "modernbert": ("ModernBertConfig", "ModernBertForSequenceClassification",
                   dict(SMALL, **TEXT, pad_token_id=0, reference_compile=False), "class"),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel",
             dict(n_embd=32, n_layer=2, n_head=4, n_positions=32, vocab_size=VOCABULARY, use_cache=False), "lm"),
    "gpt_neo": ("GPTNeoConfig", "GPTNeoForCausalLM",
                dict(hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]],
                     window_size=4, **TEXT, use_cache=False), "lm"),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", dict(SMALL, **TEXT, use_cache=False), "lm"),
    "gptj": ("GPTJConfig", "GPTJForCausalLM",
             dict(n_embd=32, n_layer=2, n_head=4, n_positions=32, rotary_dim=4, vocab_size=VOCABULARY,
                  use_cache=False), "lm"),
    "opt": ("OPTConfig", "OPTForCausalLM",
            dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64, word_embed_proj_dim=32, **TEXT,
                 use_cache=False), "lm"),
    "bloom": ("BloomConfig", "BloomForCausalLM",
              dict(hidden_size=32, n_layer=2, n_head=4, vocab_size=VOCABULARY, use_cache=False), "lm"),
    "falcon": ("FalconConfig", "FalconForCausalLM",
               dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, vocab_size=VOCABULARY,
                    use_cache=False), "lm"),
    "llama": ("LlamaConfig", "LlamaForCausalLM", LLAMA, "lm"),
    "mistral": ("MistralConfig", "MistralForCausalLM", dict(LLAMA, sliding_window=6), "lm"),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", LLAMA, "lm"),
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", dict(LLAMA, head_dim=8), "lm"),
    "gemma": ("GemmaConfig", "GemmaForCausalLM", dict(LLAMA, head_dim=8), "lm"),
    "phi": ("PhiConfig", "PhiForCausalLM", LLAMA, "lm"),
    "phi3": ("Phi3Config", "Phi3ForCausalLM", dict(LLAMA, pad_token_id=0), "lm"),
    "stablelm": ("StableLmConfig", "StableLmForCausalLM", LLAMA, "lm"),
    "olmo": ("OlmoConfig", "OlmoForCausalLM", LLAMA, "lm"),
    "t5_encoder": ("T5Config", "T5EncoderModel",
                   dict(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=VOCABULARY,
                        use_cache=False), 32),
    "vit": ("ViTConfig", "ViTForImageClassification", VISION, "class"),
    "deit": ("DeiTConfig", "DeiTForImageClassification", VISION, "class"),
    "beit": ("BeitConfig", "BeitForImageClassification", VISION, "class"),
    "dinov2": ("Dinov2Config", "Dinov2ForImageClassification", VISION, "class"),
    "swin": ("SwinConfig", "SwinForImageClassification",
             dict(image_size=64, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4), "class"),
    "convnext": ("ConvNextConfig", "ConvNextForImageClassification",
                 dict(hidden_sizes=[16, 32, 32, 32], depths=[1, 1, 2, 1]), "class"),
    "resnet": ("ResNetConfig", "ResNetForImageClassification",
               dict(embedding_size=16, hidden_sizes=[16, 32, 32, 64], depths=[1, 1, 1, 1]), "class"),
    "regnet": ("RegNetConfig", "RegNetForImageClassification",
               dict(embedding_size=16, hidden_sizes=[16, 32, 32, 64], depths=[1, 1, 1, 1], groups_width=8), "class"),
    "mobilenet_v2": ("MobileNetV2Config", "MobileNetV2ForImageClassification", dict(depth_multiplier=0.35), "class"),
    "mobilevit": ("MobileViTConfig", "MobileViTForImageClassification",
                  dict(image_size=64, hidden_sizes=[24, 32, 40], neck_hidden_sizes=[8, 12, 16, 24, 32, 40, 80]),
                  "class"),
    "segformer": ("SegformerConfig", "SegformerForImageClassification",
                  dict(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4]), "class"),
    "poolformer": ("PoolFormerConfig", "PoolFormerForImageClassification",
                   dict(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]), "class"),
    "siglip_vision": ("SiglipVisionConfig", "SiglipVisionModel", VISION, 32),
    "clip_vision": ("CLIPVisionConfig", "CLIPVisionModel", VISION, 32),
    "clip_text": ("CLIPTextConfig", "CLIPTextModel", dict(SMALL, **TEXT, eos_token_id=2), 32),
    "wav2vec2": ("Wav2Vec2Config", "Wav2Vec2ForSequenceClassification",
                 dict(SMALL, conv_dim=[16, 16], conv_stride=[5, 4], conv_kernel=[10, 8], num_conv_pos_embeddings=8,
                      num_conv_pos_embedding_groups=4, apply_spec_augment=False, classifier_proj_size=16), "class"),
    "hubert": ("HubertConfig", "HubertForSequenceClassification",
               dict(SMALL, conv_dim=[16, 16], conv_stride=[5, 4], conv_kernel=[10, 8], num_conv_pos_embeddings=8,
                    num_conv_pos_embedding_groups=4, apply_spec_augment=False, classifier_proj_size=16), "class"),
    "whisper_encoder": ("WhisperConfig", "WhisperEncoder",
                        dict(d_model=32, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=64,
                             num_mel_bins=16, max_source_positions=20), 32),
    "ast": ("ASTConfig", "ASTForAudioClassification",
            dict(SMALL, max_length=64, num_mel_bins=32, patch_size=16), "class"),
}
INPUTS = {
    "wav2vec2": {"input_values": ("float", (800,))},
    "hubert": {"input_values": ("float", (800,))},
    "whisper_encoder": {"input_features": ("float", (16, 40))},
    "ast": {"input_values": ("float", (64, 32))},
}


def transformers_model(name, attention):
    import transformers
    config_name, model_name, arguments, kind = TRANSFORMERS[name]
    config = getattr(transformers, config_name)(**arguments, **({"num_labels": 10} if kind == "class" else {}))
    for key, value in list(vars(config).items()):
        if ("drop" in key or "mask_time_prob" in key) and isinstance(value, (int, float)):
            setattr(config, key, 0.0)
    if attention:
        config._attn_implementation = attention
    if name == "whisper_encoder":
        from transformers.models.whisper.modeling_whisper import WhisperEncoder as constructor
    else:
        constructor = getattr(transformers, model_name)
    model = constructor(config)
    argument = next(iter(transformers_inputs(name)))
    wrapped = Pooled(model, argument, kind) if isinstance(kind, int) else Logits(model, argument)
    return without_randomness(wrapped)


def transformers_inputs(name):
    if name in INPUTS:
        return INPUTS[name]
    model_name = TRANSFORMERS[name][1]
    return {"pixel_values": ("float", (3, 64, 64))} if "Image" in model_name or "Vision" in model_name else IDS


def transformers_cases(attention=None):
    for name, (_, model_name, _, kind) in TRANSFORMERS.items():
        lm = kind == "lm"
        yield Case("transformers", name, lambda name=name: transformers_model(name, attention), transformers_inputs(name),
                   classes=VOCABULARY if lm else 10, label_shape=(TOKENS,) if lm else (), note=model_name)


def cases():
    return [*torchvision_cases(), *timm_cases(), *transformers_cases()]
