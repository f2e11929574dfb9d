"""One command whose study has copies at a storage."""

import random
from collections.abc import Callable

from search_spaces.study import Edition
from service.execution.driver import Driver
from service.storage.home import Home
from service.storage.remote import Copies, StorageSync
from tests.rooms.toy import CutError, Toy, driving


def command(
    home: Home,
    edition: Edition,
    uri: str,
    seed: int = 0,
    prepare: Callable[[Driver], None] = lambda driver: None,
    **toy,
) -> Toy | None:
    """What it trained; None where it was cut, like a machine that dies: nothing is sent at its end."""
    copies = Copies(uri, home, edition.id)
    with StorageSync(copies) as sync, driving(home, edition, copies=copies) as driver:
        sync.open(driver.journal)
        prepare(driver)
        trained = Toy(driver, random.Random(seed), **toy)
        try:
            trained.drive()
        except CutError:
            if seed % 2:
                sync._copy.send(0.0)
            return None
        assert sync.close(driver.history) is None
        return trained
