"""Do the logits' position terms have a larger share with a concatenated table than with an added one?

Source: the concat paper 3.1 (eqs. 7 and 8), 5.2, figures 7, 8, 9 and 11; no term published. Cost: smoke 1 min, cpu 4
min, images 25 min (an estimate) on 2 cores; paper 7.9 GPU-hours.
Expected: with a table of its own, position has its own weights of queries and keys, so its three terms should be a
larger share, which is our reading of 5.2. The deviation of all three, in logits, should be smaller, as the paper reads
from its pictures (5.2: added, the scale of figure 9 goes from -300 to 400). What the terms do in short training is not
clear.
"""

from search_spaces.claim import ProbeBetween, ProbeRising
from search_spaces.studies._concat import DEEP, PAPER, TABLE, WHOLE
from search_spaces.studies._imagenet import CROP_GAP, STAND_IN_GAP
from search_spaces.studies._images import IMAGES
from search_spaces.studies._smoke import ARMS_GAP, SMALL
from search_spaces.study import Ablation, Budget, Published, Score, Study

ITEMS = ("position_content", "content_position", "position_position")
"""The three positional items of eq. 8, the query's side first."""

study = Study(
    name="logit-terms",
    question="Do the logits' position terms have a larger share with a concatenated table than with an added one?",
    family="concat",
    paper=f"{PAPER}, 5.2 and figures 7, 8, 9 and 11",
    minutes={"smoke": 1, "cpu": 4, "images": 25},
    not_run=("images",),
    gpu_hours={"paper": 7.9},
    expected="the three terms with position have a larger share and a smaller deviation; no term published",
    found={
        "cpu": "5 seeds: both tables score 1.0000; concatenated minus added, shares at 98.3 %: position-content "
        "-0.0709 (-0.1857 to 0.0439; about 12 seeds would decide it), content-position -0.0536 (-0.2832 to 0.1760; "
        "65), position-position -0.0618 (-0.1332 to 0.0096; 8); deviation of the three, added minus concatenated, "
        "+0.4092 logits (-0.5290 to 1.3473; 19): all inconclusive; the shares fall, where a rise is claimed. Figure "
        "11 is supported: the terms of the last block are 0.0501 (0.0004 to 0.0998) of the first block's with an "
        "added table, 0.1181 (98 %, -0.0810 to 0.3171) with a concatenated one.",
    },
    base=DEEP,
    plan=Ablation(arms=TABLE, baseline="added"),
    score=Score("val/accuracy"),
    budgets={
        "smoke": Budget(SMALL, seeds=2, gap=ARMS_GAP),
        "cpu": Budget(),
        "images": Budget(IMAGES),
        "paper": Budget(WHOLE, seeds=1, gap=STAND_IN_GAP),
    },
    probes=("logit_terms",),
    published=(
        Published("added", 0.798, None, "table 1, DeiT-S on ImageNet"),
        Published("concatenated", 0.800, None, "table 1, DeiT-S on ImageNet"),
    ),
    claims=(
        *(
            ProbeRising(
                ("added", "concatenated"),
                "logit_terms",
                item,
                when="after",
                source="our reading of 5.2: figure 7, concatenation “enhances the learning of three positional items”",
            )
            for item in ITEMS
        ),
        ProbeRising(
            ("concatenated", "added"),
            "logit_terms",
            "position",
            when="after",
            source="5.2: figure 9, the scale range of added positions is “much broader”",
        ),
        *(
            ProbeBetween(
                arm,
                "logit_terms",
                "last_by_first",
                None,
                1.0,
                when="after",
                source="figure 11: the three items “gradually converge from the first to the last layer”",
            )
            for arm in TABLE
        ),
    ),
    gaps=(
        "models that 5.2 does not name, on ImageNet, there; a ViT of 4 blocks on red-green images, or on 5,000 images "
        "of CIFAR-10, here: the probe splits the logits of a ViT alone",
        CROP_GAP,
        "eq. 7 prints the query twice: we take the second as the key. Eq. 8 puts its matrices side by side: we stack "
        "rows",
        "the paper leaves out the layer norm before attention; the probe divides both sides by its deviation",
        "after the first block content holds position, too; figure 11 takes the table as carried unchanged (eq. 9), "
        "and so does last_by_first; the shares and position are of the first block, where the split is exact",
        "what figures 7 and 8 call horizontal, vertical and angle is read from pictures and not defined: no claim; the "
        "report draws the terms between all patches, the mean over images and heads",
        "that learning is “enhanced” is read as a larger share of the four deviations over keys; the scale range of "
        "figure 9 is a deviation here",
        "32 images here, 500 there; the models of several stages of figures 9 and 11 are left out: the probe cannot "
        "see them",
    ),
)
