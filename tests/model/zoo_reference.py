#!/usr/bin/env python3
"""Writes zoo_reference.txt: what the zoo's models are made of in torchvision and Hugging Face's transformers.

  model NAME MACS        multiply-adds of a forward pass of one image, by its convolutions and linear layers;
                         0: not counted
  PARAMETER f32[...]     every parameter (once, if it is tied) and running statistic

With --steps DIR also, for zoo_reference_test (EBB_ZOO_STEPS=DIR):
  DIR/NAME.onnx          an image model with random weights
  DIR/NAME.safetensors   a transformer's random parameters, a batch, its loss and the gradients (grad/...), without dropout
Made with PyTorch 1.13.1, torchvision 0.14.1 (Debian: python3-torchvision) and transformers 4.30.2 (PyPI)."""
import argparse
import pathlib

import torch
import torchvision.models as models
from safetensors.torch import save_file
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

OUT = pathlib.Path(__file__).resolve().parent / "zoo_reference.txt"
IMAGE_MODELS = {
    "resnet50": lambda: models.resnet50(weights=None),
    "resnet152": lambda: models.resnet152(weights=None),
    "vgg16": lambda: models.vgg16(weights=None),
    "inception_v3": lambda: models.inception_v3(weights=None, aux_logits=False, init_weights=False),
    "densenet121": lambda: models.densenet121(weights=None),
    "mobilenet_v2": lambda: models.mobilenet_v2(weights=None),
}
NO_DROPOUT = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
NO_GPT_DROPOUT = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


def bert(tokens):
    return BertForMaskedLM(BertConfig(max_position_embeddings=tokens, **NO_DROPOUT))


TRANSFORMERS = {
    "bert_base_128": (128, lambda: bert(128)),
    "bert_base_384": (384, lambda: bert(384)),
    "gpt2": (1024, lambda: GPT2LMHeadModel(GPT2Config(**NO_GPT_DROPOUT))),
}


def side(name):
    return 299 if name == "inception_v3" else 224


def count_macs(model, image):
    total = 0

    def add(module, _, output):
        nonlocal total
        total += output.numel() * module.weight[0].numel()

    hooks = [m.register_forward_hook(add) for m in model.modules()
             if isinstance(m, (torch.nn.Conv2d, torch.nn.Linear))]
    with torch.no_grad():
        model.eval()(image)
    for hook in hooks:
        hook.remove()
    return total


def export(model, image, path):
    torch.onnx.export(model.train(), image.repeat(2, 1, 1, 1), path, opset_version=17,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      input_names=["x"], output_names=["logits"],
                      dynamic_axes={"x": {0: "N"}, "logits": {0: "N"}})


def masked_batch(tokens):
    """Two rows with 15 % of their positions masked: what the zoo reads, and what the model reads."""
    masked = -(-tokens * 15 // 100)
    ids = torch.randint(0, 30522, (2, tokens))
    types = (torch.arange(tokens) >= tokens // 2).long().repeat(2, 1)
    positions = torch.stack([torch.randperm(tokens)[:masked].sort().values for _ in range(2)])
    labels = torch.randint(0, 30522, (2, masked))
    everywhere = torch.full((2, tokens), -100).scatter(1, positions, labels)
    return (dict(input_ids=ids, token_type_ids=types, mlm_positions=positions, labels=labels),
            dict(input_ids=ids, token_type_ids=types, labels=everywhere))


def next_token_batch(tokens):
    ids = torch.randint(0, 50257, (1, tokens + 1))
    labels = ids[:, 1:].clone()
    labels[:, -20:] = -100  # padding
    return dict(input_ids=ids[:, :-1].contiguous(), labels=labels), None


def step(name, model, tokens, path):
    fields, arguments = next_token_batch(tokens) if name == "gpt2" else masked_batch(tokens)
    if arguments is None:  # the model shifts its labels itself, the zoo reads shifted ones
        logits = model.train()(input_ids=fields["input_ids"]).logits
        loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), fields["labels"])
    else:
        loss = model.train()(**arguments).loss
    loss.backward()
    tensors = {key: value.contiguous() for key, value in fields.items()}
    tensors["loss"] = loss.detach().reshape(1)
    for key, value in model.named_parameters():
        tensors[key] = value.detach().contiguous()
        tensors[f"grad/{key}"] = value.grad.contiguous()
    save_file(tensors, str(path))


def describe(items):
    return [f"{key} f32[{','.join(map(str, value.shape))}]" for key, value in items
            if not key.endswith("num_batches_tracked")]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=pathlib.Path, help="directory for models with weights")
    args = parser.parse_args()
    if args.steps:
        args.steps.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, make in IMAGE_MODELS.items():
        torch.manual_seed(1)
        model = make()
        image = torch.randn(1, 3, side(name), side(name))
        lines += [f"model {name} {count_macs(model, image)}", *describe(model.state_dict().items())]
        if args.steps:
            export(model, image, str(args.steps / f"{name}.onnx"))
    for name, (tokens, make) in TRANSFORMERS.items():
        torch.manual_seed(1)
        model = make()
        lines += [f"model {name} 0", *describe(model.named_parameters())]
        if args.steps:
            step(name, model, tokens, args.steps / f"{name}.safetensors")
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
