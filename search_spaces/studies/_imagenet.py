"""What stands for ImageNet in the budgets of papers whose models are trained on it."""

STAND_IN_GAP = (
    "90,000 of Tiny-ImageNet's 100,000 images, enlarged, stand for ImageNet (10,000 are held out for validation), so "
    "published numbers cannot be reached; --set data.kind=folder --set data.path=FOLDER trains on ImageNet itself"
)
