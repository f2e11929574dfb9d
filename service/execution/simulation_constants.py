"""What a simulation takes for granted: defaults, and times measured once (`deploy/sizing.md` says with what)."""

MAX_CONCURRENT = 8
"""How many runs train together, if nobody says."""
EPOCH_S = 60.0
"""How long an epoch takes where nobody knows: for shares of time alone, never for a time that is said."""
TUNE_RUN_S = 0.012
"""The driver's time for a run in Ray Tune: its process is placed, begun and ended. Units: seconds of a processor."""
TUNE_REPORT_S = 0.002
"""The driver's time for an epoch's report in Ray Tune, beside what locus does with it."""
START_S = 0.1
"""From a run's start to its first step, in a process that has torch already."""
MLFLOW_ROW_S = 0.3
"""The time to send one run or trial with its curve to an MLflow server with PostgreSQL."""
MEMORY_BYTES = 17_000
"""The driver's memory for a trial of three seeds."""
CHECKPOINT_S = 20.0
"""How often a run writes a checkpoint, at most; as `trainables/training/saving.py` has it, which imports torch."""
CHECKPOINT_COPIES = 3
"""A checkpoint holds each parameter and the two moments of its optimizer."""
