"""Twenty tasks that a stranger is given together with the names of all files, and where each is done.

A name is good if it can be guessed. Show the tasks and `git ls-files '*.py'` to somebody who has not seen the code: 18
of the 20 guesses should be among the files listed here. The sentences stay as they are when files move.
"""

from pathlib import Path

TASKS = {
    "A search stops a point too early at a rung.": ("service/planning/stopping.py",),
    "A driver died, and its home still says that it is in use.": ("service/storage/leases.py",),
    "The table of runs in the MLflow UI should have one more column.": ("service/tracking/views.py",),
    "The p-values of several claims are adjusted together in the wrong order.": (
        "service/analysis/multiple_testing.py",
    ),
    "Another trial should count as the best one if two have the same score.": ("service/analysis/best.py",),
    "`locus run` should have one more option.": ("service/commands/options.py", "service/planning/run_options.py"),
    "`locus plan` predicts half of the time that a study takes.": (
        "service/planning/forecast.py",
        "service/planning/estimate.py",
    ),
    "A finished run is trained again although its code did not change.": (
        "service/storage/outcomes.py",
        "trainables/recipe/code_digest.py",
    ),
    "The journal should hold one more kind of fact.": ("service/storage/facts.py",),
    "A second Ctrl-C should end the program at once.": ("service/execution/signals.py",),
    "A study that is submitted sends a file too many to the cluster.": ("service/execution/submission.py",),
    "A run that is silent for an hour is not ended.": ("service/execution/watchdog.py",),
    "Rotary angles are wrong for the class token.": ("trainables/encodings/rotary.py",),
    "Images that lie on their side are not turned.": ("trainables/data/upright_rgb.py",),
    "The learning rate falls too fast.": ("trainables/training/optimizer.py",),
    "The figure of learning curves needs a legend.": ("service/reporting/figures/curves.py",),
    "A percent sign breaks a table in LaTeX.": ("service/reporting/latex.py",),
    "`locus forget` removes a folder too many.": ("service/removal.py", "service/storage/home.py"),
    "Two runs should share a GPU.": ("service/planning/placement.py",),
    "Optuna proposes the same point twice.": ("service/planning/sampling.py",),
}
"""What somebody wants to change, and the files that do it."""
ROOT = Path(__file__).parents[2]


def test_the_files_of_the_tasks_are_there():
    assert len(TASKS) == 20
    assert [file for files in TASKS.values() for file in files if not (ROOT / file).is_file()] == []
