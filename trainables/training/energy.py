"""The energy that a machine's own counters saw while an epoch ran, where there are counters that may be read.

A counter belongs to a whole processor or GPU: what other programs and other runs used there meanwhile is in it, too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

EPOCH_J = "energy/epoch_j"
"""The metric: the energy of an epoch with its evaluation. Units: joules."""
RAPL = Path("/sys/class/powercap")
"""Where Linux shows the counters of processors (RAPL). Many systems let only root read them."""
ZONE = re.compile(r"intel-rapl:\d+(:\d+)?")
COUNTED = ("package", "dram")
"""Zones that hold no other one: the cores are part of a package, and `psys` holds all."""
EVERY_S = 60.0
"""How often the counters are read during an epoch, as those of RAPL begin again at 0 after some minutes."""
WATTS = 1000.0
"""No processor draws more, so a counter cannot have begun again twice in less than its range at this power."""


@dataclass(frozen=True)
class Counter:
    """One counter. `read`: its value; `span`: the value at which it begins again at 0, or None. Units: joules."""

    read: Callable[[], float]
    span: float | None = None


class EnergyMeter:
    """Counts joules between `begin` and `end`. Without counters, and with several workers, it knows nothing.

    On a CPU these are the machine's processors and memory, on a GPU that GPU alone. `workers`: several share processors
    or have a GPU each, so that one worker's counters are those of no run. `clock`: seconds, from any start.
    """

    def __init__(
        self, device: torch.device, workers: int = 1, rapl: Path = RAPL, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        found = [] if workers > 1 else _of_gpu(device) if device.type == "cuda" else list(_of_processors(rapl))
        self._counters = found if found and _values(found) is not None else []
        self._last: list[float] | None = None
        self._at = 0.0
        self._joules: float | None = None

    def begin(self, joules: float | None) -> None:
        """Begins to count from what is known already; None where that is not known."""
        self._last = _values(self._counters)
        self._at = self._clock()
        self._joules = joules if self._last else None

    def sample(self) -> None:
        """Reads the counters where a minute has passed: called at every step."""
        if self._joules is not None and self._clock() - self._at >= EVERY_S:
            self._read()

    def end(self) -> dict[str, float]:
        """The joules since `begin`, as a metric; none where they are not known."""
        if self._joules is not None:
            self._read()
        return {} if self._joules is None else {EPOCH_J: self._joules}

    def _read(self) -> None:
        now, at = _values(self._counters), self._clock()
        assert self._last is not None
        assert self._joules is not None
        if now is None:
            self._joules = None
            return
        for counter, before, value in zip(self._counters, self._last, now, strict=True):
            if counter.span is not None and (at - self._at) * WATTS > counter.span:
                self._joules = None  # it may have begun again more than once
                return
            self._joules += value - before + (counter.span or 0.0) * (value < before)
        self._last, self._at = now, at


def _values(counters: list[Counter]) -> list[float] | None:
    """What all counters show; None where one cannot be read."""
    with suppress(OSError, ValueError, RuntimeError):
        return [counter.read() for counter in counters]
    return None


def _of_processors(rapl: Path) -> Iterator[Counter]:
    """The counters of packages and memory in a folder such as /sys/class/powercap."""
    for zone in sorted(rapl.glob("intel-rapl:*")):
        if not ZONE.fullmatch(zone.name):
            continue
        with suppress(OSError, ValueError):
            if (zone / "name").read_text().startswith(COUNTED):
                span = int((zone / "max_energy_range_uj").read_text()) / 1e6
                yield Counter(lambda file=zone / "energy_uj": int(file.read_text()) / 1e6, span)  # type: ignore[misc]


def _of_gpu(device: torch.device) -> list[Counter]:
    """The counter of a GPU, known to NVML by its UUID, as CUDA numbers only the GPUs that a process sees."""
    import pynvml

    with suppress(pynvml.NVMLError):
        pynvml.nvmlInit()  # stays open: to open it again for each epoch may take longer than a small epoch
        uuid = str(torch.cuda.get_device_properties(device).uuid)
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")

        def read() -> float:
            try:
                return float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1e3
            except pynvml.NVMLError as error:  # old GPUs, and parts of a GPU, have no counter
                raise RuntimeError(str(error)) from None

        return [Counter(read)]
    return []
