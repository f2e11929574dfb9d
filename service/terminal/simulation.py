"""What `simulate` prints."""

from __future__ import annotations

from rich.text import Text

from search_spaces.words import clock
from service.execution.simulation.simulate import Simulated, Stopping, Window
from service.terminal.output import columns, console, labelled, row, sentence

MADE_UP = (
    "Scores and learning curves are made up. Driver, sampler, early stopping and journal are the real ones, timed on "
    "this machine; Ray Tune and MLflow take what was measured before (deploy/sizing.md)."
)


FULL = 0.95
"""The share of its time from which a part counts as full."""


def simulation(found: Simulated) -> None:
    """How long a study would take, where its time goes, and how its early stopping did."""
    out = console()
    counts = f"{found.trials:,} trials, {found.runs:,} runs, {found.epochs:,} epochs, {found.slots:,} runs together"
    labelled(out, "simulated", f"{found.id}: {counts}", style="bold")
    labelled(out, "an epoch", _epoch(found))
    if found.epoch_from:
        labelled(out, "time", f"{clock(found.seconds)}; runs train in {found.used:.0%} of the slots' time")
    else:
        labelled(out, "time", f"{found.epochs:,} epochs x ? s; {found.slots:,} of them at a time")
    labelled(out, "first full", _bottleneck(found))
    written = f"the journal has {_size(found.journal_bytes)}, the driver needs about {_size(found.memory_bytes)}"
    labelled(out, "size", f"{written}, checkpoints take up to {_size(found.checkpoint_bytes_s)} a second")
    out.print(Text("\nhow busy each part is, by trials begun", style="bold"))
    view = columns("  trials", "driver", "proposals", "decisions", "Ray Tune", "MLflow", "slots", "a proposal takes")
    for part in found.windows:
        row(view, *_cells(part))
    out.print(view)
    if found.stopping:
        out.print(Text("\nearly stopping of the first seeds, on the same points", style="bold"))
        view = columns("  way", "epochs", "whole runs", "what it would choose")
        for way in found.stopping:
            row(view, f"  {way.way}", f"{way.epochs:,}", f"{way.completed:,}", _place(way, found.trials))
        out.print(view)
    out.print()
    sentence(out, Text(f"{MADE_UP} It took {clock(found.took)}.", style="dim"))


def _epoch(found: Simulated) -> str:
    if found.epoch_from:
        return f"{found.epoch_s:.3g} s, {found.epoch_from}"
    return f"unknown: none was measured here; {found.epoch_s:g} s for what follows (--epoch-s SECONDS)"


def _bottleneck(found: Simulated) -> str:
    part, share = found.bottleneck
    busiest = found.busiest
    mine = {"proposals": busiest.proposals, "decisions": busiest.decisions, "Ray Tune": busiest.tune}
    most = f", most of it with {max(mine, key=lambda name: mine[name])}" if part == "the driver" else ""
    full = f"it would be full with about {found.slots / share:,.0f} runs together"
    if share > FULL:
        full = "it is full, and runs wait for it"
    return f"{part}: busy for {share:.1%} of its time around trial {busiest.trials:,}{most}; {full}"


def _cells(part: Window) -> list[str]:
    shares = [part.driver, part.proposals, part.decisions, part.tune, part.mlflow]
    used = min(part.used, 1)  # an epoch counts where it ends, so a part may have more than its own
    return [f"  {part.trials:,}", *(f"{one:.1%}" for one in shares), f"{used:.0%}", f"{1000 * part.proposal_s:.0f} ms"]


def _place(way: Stopping, trials: int) -> str:
    return "the best trial" if way.rank == 1 else f"number {way.rank:,} of {trials:,} by true scores"


def _size(count: float) -> str:
    """Bytes in words: 58 MB."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
