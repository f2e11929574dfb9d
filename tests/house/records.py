"""Which results of the named studies are older than today's rules or code: `make records` lists them, with hours.

Hours are those that `locus studies` says, of 2 CPU cores; for a person's own values those of the record's machine.
"""

from __future__ import annotations

from collections.abc import Iterator

from search_spaces import library
from search_spaces.record import BEFORE, read

CORES = "2 cores"


def stale() -> Iterator[tuple[str, str, float, str]]:
    """Yields of each older result the id, how it differs from today's, the minutes that a new one takes, on what."""
    records = [record for path in library.records() if (record := read(path))]
    for study in map(library.find, library.names()):
        recorded = {record.budget for record in records if record.study == study.name}
        for budget in study.found.keys() - recorded:
            yield f"{study.name}@{budget}", BEFORE, study.minutes[budget], CORES
    for record in records:
        study = library.find(record.study)
        usual = (study.minutes.get(record.budget, record.minutes), CORES)
        if since := record.since(record.edition(study)):
            yield record.id, ", ".join(since), *((record.minutes, record.machine) if record.mark else usual)


def main() -> None:
    """Prints a line a result, then the hours of all on 2 cores."""
    rows = sorted(stale())
    for id, since, minutes, machine in rows:
        print(f"{id:45} {since:40} {minutes / 60:5.1f} h  {machine}")
    hours = sum(minutes for *_, minutes, machine in rows if machine == CORES) / 60
    print(f"{len(rows)} results are older than today's rules, code or definition; {hours:.0f} hours on {CORES}")


if __name__ == "__main__":
    main()
