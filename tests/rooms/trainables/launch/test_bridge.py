"""Room: what rank 0 says is heard once and answered once, and nobody is left waiting."""

import asyncio

from trainables.launch.bridge import Bridge


def test_a_message_waits_for_its_verdict():
    async def talk():
        bridge = Bridge()
        heard = []

        async def rank_0():
            return [await bridge.send({"epoch": epoch}) for epoch in (1, 2, 3)]

        async def asker():
            for verdict in (bridge.go_on, bridge.go_on, bridge.end):
                heard.append(await bridge.receive())
                await verdict()

        verdicts, _ = await asyncio.wait_for(asyncio.gather(rank_0(), asker()), 5)
        return verdicts, heard

    verdicts, heard = asyncio.run(talk())
    assert verdicts == [True, True, False]
    assert [message["epoch"] for message in heard] == [1, 2, 3]


def test_an_ended_bridge_answers_with_an_end_whenever_it_is_asked():
    async def talk():
        bridge = Bridge()
        await bridge.end()  # nobody was waiting
        return [await asyncio.wait_for(bridge.send({"epoch": epoch}), 5) for epoch in (1, 2)]

    assert asyncio.run(talk()) == [False, False]


def test_a_closed_bridge_tells_the_asker():
    async def talk():
        bridge = Bridge()
        waiting = asyncio.create_task(bridge.receive())
        await asyncio.sleep(0)
        await bridge.close()
        return await asyncio.wait_for(waiting, 5)

    assert asyncio.run(talk()) is None
