import asyncio


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()


async def f(job):
    async with asyncio.TaskGroup() as group:
        group.create_task(job())
    return await asyncio.gather(job(), asyncio.sleep(1))
