#!/usr/bin/env python3
"""Writes tests/data/fixtures/images: small images of every kind, and in expected.npz what PIL and
torchvision make of them. Made with Pillow 13.0, torchvision 0.24.1, numpy 2.4.

    python3 tests/data/make_images.py
"""
import pathlib

import numpy as np
import torch
from PIL import Image
from torchvision.transforms import v2

OUT = pathlib.Path(__file__).resolve().parent / "fixtures" / "images"


def picture(height, width):
    """Smooth colours with edges, so that decoders and filters have something to do."""
    y, x = np.mgrid[0:height, 0:width].astype(float)
    planes = [127 + 120 * np.sin(x / 3.1 + y / 5.3), 255 * ((x // 4 + y // 3) % 2), 255 * y / height]
    return np.stack(planes, -1).clip(0, 255).astype(np.uint8)


def main():
    OUT.mkdir(exist_ok=True)
    rgb = Image.fromarray(picture(17, 23))
    alpha = rgb.copy()
    alpha.putalpha(Image.fromarray(picture(17, 23)[..., 0]))
    deep = Image.fromarray((picture(17, 23)[..., 0].astype(np.uint16) * 257 - 100).clip(0))
    files = {
        "rgb.png": rgb, "grey.png": rgb.convert("L"), "alpha.png": alpha,
        "grey_alpha.png": alpha.convert("LA"), "palette.png": rgb.quantize(13),
        "one_bit.png": rgb.convert("1"), "grey16.png": deep,
        "rgb.jpg": rgb, "grey.jpg": rgb.convert("L"), "progressive.jpg": rgb, "cmyk.jpg": rgb.convert("CMYK"),
        "no_subsampling.jpg": rgb,
    }
    options = {"progressive.jpg": {"progressive": True}, "no_subsampling.jpg": {"subsampling": 0},
               "rgb.jpg": {"subsampling": 2}}
    expected = {}
    for name, image in files.items():
        quality = {"quality": 90} if name.endswith("jpg") else {}
        image.save(OUT / name, **quality, **options.get(name, {}))
        with Image.open(OUT / name) as read:
            if name == "grey16.png":  # PIL would clip what is above 255
                upper = (np.asarray(read).astype(np.uint16) >> 8).astype(np.uint8)
                expected[name] = np.repeat(upper[..., None], 3, -1)
            elif name != "cmyk.jpg":
                expected[name] = np.asarray(read.convert("RGB"))
    for width, height in [(8, 8), (40, 31), (11, 17), (23, 50), (1, 1)]:
        expected[f"resized {width}x{height}"] = np.asarray(rgb.resize((width, height), Image.BILINEAR))
    tensor = [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True)]
    normalize = v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    for name, steps in {
        "resize 12": [v2.Resize(12)], "center_crop 10": [v2.CenterCrop(10)],
        "center_crop 20": [v2.CenterCrop(20)], "center_crop 30": [v2.CenterCrop(30)],
        "resize 12, center_crop 10, normalize": [v2.Resize(12), v2.CenterCrop(10), *tensor, normalize],
        "hflip": [v2.RandomHorizontalFlip(1.0)],
    }.items():
        pipeline = v2.Compose(steps if normalize in steps else [*steps, *tensor])
        expected[name] = pipeline(rgb).numpy()
    np.savez_compressed(OUT / "expected.npz", **expected)


if __name__ == "__main__":
    main()
