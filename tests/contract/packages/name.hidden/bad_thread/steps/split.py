import asyncio


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()


async def f():
    return await asyncio.to_thread(len, "x")
