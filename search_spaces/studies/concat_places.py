"""At which place do concatenated and added position differ?

Source: the concat paper 4.3 (tokens, query, key, value one by one), figures 4 and 5, and 4.1, figure 3; no number
published. Cost: smoke 1 min, cpu 10 min, images 35 min (an estimate) on 2 cores; paper 1.4 GPU-hours.
Expected: attention maps of both methods are alike where position enters the tokens or the values, and differ where it
enters the queries or the keys, as figure 5 shows; alike means: as two seeds of one method. On red-green images position
in the values alone is enough, in the queries alone it is little.
"""

from typing import Any

from search_spaces.claim import ProbeAsAlike, ProbeRising
from search_spaces.studies._concat import DEEP, PAPER, TABLE, TRAINING
from search_spaces.studies._images import IMAGES
from search_spaces.studies._smoke import ARMS_GAP, SMALL
from search_spaces.study import Ablation, Budget, Score, Study
from trainables.backbones.vit import DEIT_SMALL

PLACES: dict[str, dict[str, Any]] = {
    place: {"encoding.injection.places": [place]} for place in ("common", "query", "key", "value")
}
"""The four places; `common` are the tokens before the first block."""

WITHIN = 0.1
"""Two methods are alike where their maps correlate by no more than this less than those of two seeds of one method."""
MAPS, AREA = ("attention_maps", "maps"), ("attention_maps", "area")
ALIKE = "4.3: figure 5, for patch embedding and value “the curve is approximately similar”"
DIFFERENT = "4.3: figure 5, “the similarity curve varies” for query and key"
LARGER = "4.3: figure 4, with concatenation in the common position “the attention area … became larger”"

FLOWERS: dict[str, Any] = {
    "data": {"kind": "flowers102", "image_size": 224},
    "model": {**DEIT_SMALL.plain(), "drop_path": 0.1},
    **TRAINING,
    "optimizer.batch_size": 128,
}
"""300 epochs on Flowers-102 from scratch, in 12 blocks."""

study = Study(
    name="concat-places",
    question="At which place do concatenated and added position differ?",
    family="concat",
    paper=f"{PAPER}, 4.1 and 4.3, figures 3 to 5",
    minutes={"smoke": 1, "cpu": 10, "images": 35},
    not_run=("images",),
    gpu_hours={"paper": 1.4},
    expected="attention maps of both methods are alike for tokens and values, and differ for queries and keys; no "
    "number published",
    found={
        "cpu": "3 seeds, test images: 1.0000 by both methods in tokens, keys and values, 0.5000 in queries. Three "
        "seeds are too few for the maps: all five claims are inconclusive. Correlation of both methods, less that of "
        "two seeds of one (98 % intervals): tokens -0.1581 (-1.4447 to 1.1284; about 307 seeds would decide it), "
        "values -0.0946 (-0.7849 to 0.5957; more than 1,000), queries -0.3345 (-0.7183 to 0.0492; 5), keys +0.2003 "
        "(-1.5150 to 1.9157; 24). The attended area with concatenated tokens minus that with added ones is -0.1193 "
        "(-0.9437 to 0.7050; 33).",
    },
    base=DEEP.put({"model.depth": 3}),
    plan=Ablation(axes={"table": TABLE, "place": PLACES}, baseline="added"),
    score=Score("val/accuracy"),
    budgets={
        "smoke": Budget(SMALL, seeds=2, gap=ARMS_GAP),
        "cpu": Budget(),
        "images": Budget({**IMAGES, "model.depth": 3, "optimizer.epochs": 15}, seeds=3),
        "paper": Budget(FLOWERS, seeds=3),
    },
    probes=("attention_maps", "attention_distance"),
    claims=(
        *(
            ProbeAsAlike(f"concatenated, {place}", f"added, {place}", *MAPS, -WITHIN, None, ALIKE, when="after")
            for place in ("common", "value")
        ),
        *(
            ProbeAsAlike(f"concatenated, {place}", f"added, {place}", *MAPS, None, -WITHIN, DIFFERENT, when="after")
            for place in ("query", "key")
        ),
        ProbeRising(("added, common", "concatenated, common"), *AREA, source=LARGER, when="after"),
    ),
    gaps=(
        "Flowers-102 and 12 blocks there (budget paper); red-green images, or 5,000 images of CIFAR-10, and 3 "
        "blocks here",
        "the official split of Flowers-102 has 1,020 images to train; the paper trains on 2,040, with those of "
        "validation",
        "the paper gives neither width nor batch of 4.3: those of DeiT-S, 128 images and a rate of 1.25e-4 at paper",
        "it does not say how a code is joined to queries, keys and values: here head by head, after projection, one "
        "table for all blocks; nor whether heads or channels are halved: here channels",
        "figures 3 and 4 are heat maps of photographs whose making is not described: here what the class token attends "
        "to in the last block; the report draws them for the first four validation images",
        "figure 5's similarity is not defined: here the correlation of the mean attention between patches, over all "
        "blocks. The maps of two seeds of one arm differ, too, so both methods are compared with them; the margin of "
        "0.1 is ours",
        "4.3 calls both methods alike in the common position by figure 5, and speaks of significant differences of "
        "their maps there by figure 4: the claims ask both",
        "figure 3, that several features are attended to, is read from pictures: no claim; its models are those of "
        "table 1, trained on ImageNet",
        "the area is that of all that is attended to, since no image says which object is salient",
        "4.3 calls value + position better than query or key by its pictures alone, so no claim is made of scores",
    ),
)
