from asyncio import create_subprocess_exec as start


async def _f():
    await start("true")


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
