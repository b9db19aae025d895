"""So many uses at the same time, whatever becomes of them."""

from __future__ import annotations

import asyncio

import pytest

from doorward.console.slots import Slots


def test_a_slot_is_free_again_after_its_use_also_one_that_failed() -> None:
    slots = Slots(2)
    first, second = slots.take(), slots.take()
    assert first is not None
    assert second is not None
    assert slots.take() is None

    def fail() -> None:
        with first:
            assert len(slots) == 2
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert len(slots) == 1
    assert slots.take() is not None


def test_a_slot_that_is_given_back_twice_counts_once() -> None:
    slots = Slots(2)
    first, second = slots.take(), slots.take()
    assert first is not None
    for _ in range(2):
        with first:
            pass
    assert len(slots) == 1
    assert second is not None


def test_a_slot_of_a_use_that_never_begins_is_free_again() -> None:
    slots = Slots(1)

    async def use() -> None:
        slot = slots.take()
        assert slot is not None
        with slot:
            await asyncio.sleep(0)

    async def take_for_a_task_that_never_runs() -> None:
        slot = slots.take()
        assert slot is not None

        async def send() -> None:
            with slot:
                raise AssertionError

        task = asyncio.create_task(send())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(take_for_a_task_that_never_runs())
    assert len(slots) == 0
    asyncio.run(use())
    assert len(slots) == 0
