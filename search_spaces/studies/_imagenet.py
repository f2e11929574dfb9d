"""What stands for ImageNet in the budgets of papers whose models are trained on it."""

STAND_IN_GAP = (
    "90,000 of Tiny-ImageNet's 100,000 images, enlarged, stand for ImageNet (10,000 are held out for validation), so "
    "published numbers cannot be reached; --set data.kind=folder --set data.path=FOLDER trains on ImageNet itself"
)

CROP_GAP = (
    "at paper whole images are tested; DeiT's code tests the middle 0.875 of their sides, and so does --set "
    "data.crop_pct=0.875"
)
"""Of papers that train and test as DeiT does."""
