import asyncio


async def _f():
    await asyncio.to_thread(print)


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
