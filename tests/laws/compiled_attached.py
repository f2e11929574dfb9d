"""Compiles and exports attached models, whose outputs must be those of the same model as it is."""

import torch
from timm.models.vision_transformer import VisionTransformer

from trainables.encodings import IRPE, PEG, Learnable, Rotary
from trainables.encodings.injection import Concat
from trainables.training.attach import attach

SPECS = (Rotary(), Learnable(), IRPE(), PEG(into="query_key"), Learnable(injection=Concat(places=("query", "value"))))
SIZE = {"img_size": (12, 20), "patch_size": 4, "embed_dim": 16, "depth": 2, "num_heads": 2, "num_classes": 3}


def main() -> None:
    images, larger = torch.randn(4, 3, 12, 20), torch.randn(2, 3, 16, 24)
    for spec in SPECS:
        attached = attach(VisionTransformer(**SIZE, dynamic_img_size=True), spec).eval()
        expected = attached(images)
        torch._dynamo.reset()
        whole = torch.compile(attached, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(whole(images), expected)
        parts = torch.compile(attached, backend="aot_eager")  # an encoding on another grid is made outside
        torch.testing.assert_close(parts(larger), attached(larger))
        torch.testing.assert_close(parts(images), expected)
        program = torch.export.export(attached, (images,), dynamic_shapes=({0: torch.export.Dim("images", min=2)},))
        torch.testing.assert_close(program.module()(images[:2]), expected[:2])
        for block in attached.blocks:
            block.compile(backend="aot_eager")
        torch.testing.assert_close(attached(images), expected)
    print(len(SPECS), "alike")


if __name__ == "__main__":
    main()
