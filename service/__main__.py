"""`python -m service` is the command; `python -m service study.json` is what a cluster's job runs."""

from service.cli import main

main()
