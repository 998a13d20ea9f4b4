class A:
    def __init__(self, x):
        self.x = x

    def __getattr__(self, name):
        return name

    def __eq__(self, other):
        return other == self.x

    def __dir__(self):
        return []


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
