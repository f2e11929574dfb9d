"""What becomes of every table and figure of the papers: the studies that ask its question, or why none does.

A table that is asked in part has both. Pictures that explain and show no result are listed, too, so that none is
forgotten. The note on iRPE numbers no tables and no figures, and its 17 pictures are lost, so it is not listed.
"""

from typing import NamedTuple


class Item(NamedTuple):
    """A table or a figure: the studies that ask its question, and what of it is not asked, and why."""

    studies: tuple[str, ...] = ()
    gap: str = ""


def _in(*studies: str, gap: str = "") -> Item:
    return Item(studies, gap)


def _explains(subject: str) -> Item:
    return Item(gap=f"explains only: {subject}")


TOP_FIVE = "top-5 accuracy; here it is top-1 accuracy"
STAGES = "models of several stages: here they give up no channels for a table beside the content"
UNSEEN = "models of several stages: the probe of the logits cannot see them"
DRAWN = "what is horizontal, vertical and an angle there is read from pictures, and not defined"

THESIS = {
    "table 1": _in("direction", "distance"),
    "table 2": _in("direction-probe", "distance-probe"),
    "table 3": _in("absolute"),
    "table 4": _in("color-shift"),
    "table 5": Item(gap="says yes or no to what tables 1 to 3 measure, whose studies judge it"),
    "table 6": _explains("how many images the real data sets have"),
    "table 7": _in("realistic", "drloc", "learnable-sinusoidal", "fourier-pretraining"),
    "table 8": _in("direction-probe"),
    "table 9": _in("distance-probe"),
    "figure 1": _explains("three kinds of location in images"),
    "figure 2": _explains("images of the direction task"),
    "figure 3": _in("data-efficiency", gap="its right half, distance, which is asked at one number of images"),
    "figure 4": _explains("images of the task with other colors"),
    "figure 5": _in("color-shift"),
    "figure 6": _in(
        "realistic",
        "realistic-efficiency",
        "learnable-sinusoidal",
        "fourier-pretraining",
        gap="curves on other sets than CIFAR-10; of pretrained Fourier features only three points are asked",
    ),
    "figures 2.1 to 5.4": _explains("the drawings and sample images of its second part"),
}
CPVT = {
    "table 1": _in("resolution", "cpvt-encodings"),
    "table 2": _in("resolution", "cpvt-encodings", gap="the models S and B"),
    "table 3": _in("gap", gap=f"{TOP_FIVE}; small models"),
    "table 4": _in(
        "gap",
        "distillation",
        gap="ImageNet ReaL and throughput: we have neither its labels nor its GPU; the models S and B; networks of "
        "other papers; DeiT-tiny without position and with sines, which are those of table 1",
    ),
    "table 5": _in("peg-frozen", "peg-kernel", gap="12 layers of kernel 1: two are asked"),
    "table 6": _in("peg-placement", "peg-kernel", gap=TOP_FIVE),
    "table 7": _in("cpvt-encodings", gap=TOP_FIVE),
    "table 8": _in("cpvt-encodings"),
    "table 9": _explains("the sizes of the models"),
    "table 10": _explains("the training, which is the preset deit"),
    "table 11": _in("peg-padding", gap=TOP_FIVE),
    "table 12": _in("peg-count", gap=f"{TOP_FIVE}; small models; 0-11 in 12 blocks"),
    "table 13": _in(
        "cpvt-backbones", gap="ADE20K and COCO: we have no segmentation and no detection; ResNet-18, of another paper"
    ),
    "table 14": _in("peg-forms"),
    "table 15": _in("cpvt-backbones", gap="models of other papers, and CPVT-S-GAP"),
    "table 16": Item(
        gap="the projections of CvT are no position encoding that we have; nor are the lambda layers of D.2"
    ),
    "figure 1": _explains("where the encodings stand in a ViT"),
    "figure 2": _explains("a PEG"),
    "figure 3": Item(gap="a picture of scores; tables 2, 3 and 12 have them as numbers"),
    "figure 4": _in("cpvt-backbones"),
    "figure 5": _in("cpvt-encodings", gap="one head of one image: drawn are means over heads and images"),
    "figure 6": _in(
        "cpvt-encodings",
        gap="heads of one image: drawn are means over heads and images, and no claim asks the third block",
    ),
}
GABOR = {
    "table 1": _in("gabor-fit", gap=TOP_FIVE),
    "table 2": _in("image-classes"),
    "table 3": _in("attention-parts", gap=TOP_FIVE),
    "table 4": _in("edge-in-value", gap=TOP_FIVE),
    "table 5": _in("gabor-depth", gap=TOP_FIVE),
    "figure 1": _in("gabor-fit", gap="CaiT-S: its weights are not among those that we fit"),
    "figure 2": _explains("ViT and DeiT"),
    "figure 3": _explains("Gabor filters"),
    "figure 4": _in("gabor-fit"),
    "figure 5": _explains("the coordinates of patches"),
    "figure 6": _explains("how its code is made"),
    "figure 7": _in("gabor-fit"),
    "figure 8": Item(
        gap="feature maps of one image (patches, position, their sum, q, k and v): no probe keeps such maps"
    ),
    "figure 9": _in("edge-in-value"),
    "figure 10": _in("gabor-depth"),
    "figure 11": _in("gabor-channels"),
}
CONCAT = {
    "table 1": _in(
        "concat-vs-add",
        "concat-split",
        gap="PVT and LocalViT with a table beside the content: our stages cannot; FLOPs, memory and throughput, which "
        "are of V100 GPUs",
    ),
    "table 2": _explains("how many images the small data sets have"),
    "table 3": _in("concat-transfer", gap="Stanford Cars is no data set that we have, and PVT-S has no arm"),
    "figure 1": _explains("addition and concatenation"),
    "figure 2": _in("attention-distance"),
    "figure 3": Item(gap="that several features are attended to is read from pictures, so it is no claim"),
    "figure 4": _in("concat-places"),
    "figure 5": _in("concat-places"),
    "figure 6": _in("concat-similarity", gap=STAGES),
    "figure 7": _in("logit-terms", gap=DRAWN),
    "figure 8": _in("logit-terms", gap=f"it is drawn, with no claim: {DRAWN}"),
    "figure 9": _in("logit-terms", gap=UNSEEN),
    "figure 10": _in("concat-similarity", gap=STAGES),
    "figure 11": _in("logit-terms", gap=UNSEEN),
}
PAPERS = {"thesis": THESIS, "cpvt": CPVT, "gabor": GABOR, "concat": CONCAT}
"""By paper, then by the number that is printed there."""
