"""What an encoding knows: probes of its codes and of the attention of its model, each a function of arrays or a model.

`probes.attention_distance(weights, probes.Grid(14, 14, prefix=1))`. A file of this folder that is named in
`trainables.recipe.findings.PROBES` has a function `probe(subject)`, too, which a study can name.
"""

from trainables.encodings.encoding import Grid
from trainables.probes.attention_distance import attention_distance
from trainables.probes.attention_maps import area, between_patches, heat
from trainables.probes.block_channels import block_channels, code_share
from trainables.probes.channel_shapes import ChannelShapes, channel_shapes
from trainables.probes.direction import direction
from trainables.probes.distance import distance
from trainables.probes.image_classes import ImageClasses, image_classes
from trainables.probes.inputs.arrays import ProbeError
from trainables.probes.inputs.attention import BlockAttention, attention_of
from trainables.probes.inputs.subject import Subject, codes_of
from trainables.probes.logit_terms import TERMS, BlockTerms, logit_terms
from trainables.probes.projections import edge_share, projections
from trainables.probes.similarity import similarity

__all__ = [
    "TERMS", "BlockAttention", "BlockTerms", "ChannelShapes", "Grid", "ImageClasses", "ProbeError", "Subject",
    "area", "attention_distance", "attention_of", "between_patches", "block_channels", "channel_shapes", "code_share",
    "codes_of", "direction", "distance", "edge_share", "heat", "image_classes", "logit_terms", "projections",
    "similarity",
]  # fmt: skip
