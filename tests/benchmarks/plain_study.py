"""A search as one would write it without locus: Ray Tune, OptunaSearch, timm, a DataLoader and MLflow in one script.

    python plain_study.py DATA FOLDER {fresh,reused}

DATA is a file of images; FOLDER receives MLflow's store and Tune's results. `fresh` starts an actor a trial, as Tune
does by default; `reused` keeps the actors, as one does who has measured what starting them costs. One trial is one
training: a point and a seed.
"""

import math
import os
import sys
from pathlib import Path

POINTS, SEEDS, EPOCHS, BATCH, LR = 12, 3, 4, 50, 3e-3


def trained(config):
    """One training: a ViT of one block with learned Fourier features, an epoch's accuracy reported at a time."""
    import mlflow
    import numpy as np
    import torch
    from ray import tune
    from timm.models.vision_transformer import VisionTransformer
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    class Fourier(nn.Module):
        """Sines and cosines of random frequencies of a patch's place, through two layers."""

        def __init__(self, gamma, dim=64, features=64, hidden=32):
            super().__init__()
            self.frequencies = nn.Parameter(torch.randn(2, features // 2) / gamma)
            self.mlp = nn.Sequential(nn.Linear(features, hidden), nn.GELU(), nn.Linear(hidden, dim))
            rows, columns = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
            self.register_buffer("places", torch.stack([columns.flatten(), rows.flatten()], 1))

        def forward(self):
            angles = self.places @ self.frequencies
            return self.mlp(torch.cat([angles.cos(), angles.sin()], 1) / math.sqrt(64))

    class Model(VisionTransformer):
        """timm's ViT, with the features added to the patches."""

        def __init__(self, gamma):
            super().__init__(
                img_size=32, patch_size=4, embed_dim=64, depth=1, num_heads=4, num_classes=2, pos_embed="none"
            )
            self.features = Fourier(gamma)

        def _pos_embed(self, x):
            x = x + self.features()
            return torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1)

    torch.set_num_threads(1)
    torch.manual_seed(config["seed"])
    with np.load(config["data"]) as data:
        images, labels, val_images, val_labels = (torch.from_numpy(data[name]) for name in data.files)
    loader = DataLoader(TensorDataset(images.float() / 255, labels), batch_size=BATCH, shuffle=True)
    val_loader = DataLoader(TensorDataset(val_images.float() / 255, val_labels), batch_size=256)
    model = Model(config["gamma"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LR, total_steps=EPOCHS * len(loader))
    mlflow.set_tracking_uri(config["tracking"])
    mlflow.set_experiment("plain")
    with mlflow.start_run():
        mlflow.log_params({"gamma": config["gamma"], "seed": config["seed"]})
        for epoch in range(EPOCHS):
            model.train()
            total = 0.0
            for batch, targets in loader:
                loss = nn.functional.cross_entropy(model(batch), targets)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                total += loss.item()
            model.eval()
            with torch.no_grad():
                right = sum((model(batch).argmax(1) == targets).sum().item() for batch, targets in val_loader)
            accuracy = right / len(val_labels)
            mlflow.log_metrics({"loss": total / len(loader), "accuracy": accuracy}, step=epoch)
            tune.report({"accuracy": accuracy, "epoch": epoch})


def main(data, folder, actors):
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    import ray
    from ray import tune
    from ray.tune.search.optuna import OptunaSearch

    ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    space = {
        "gamma": tune.loguniform(0.5, 40),
        "seed": tune.choice(list(range(SEEDS))),
        "data": data,
        "tracking": f"sqlite:///{folder}/mlflow.db",
    }
    tune.Tuner(
        tune.with_resources(trained, {"CPU": 1}),
        param_space=space,
        tune_config=tune.TuneConfig(
            metric="accuracy", mode="max", search_alg=OptunaSearch(seed=0), num_samples=POINTS * SEEDS,
            max_concurrent_trials=2, reuse_actors=actors == "reused",
        ),
        run_config=tune.RunConfig(storage_path=str(Path(folder) / "tune"), verbose=0),
    ).fit()  # fmt: skip
    ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
