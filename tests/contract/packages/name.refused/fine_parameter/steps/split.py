def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()


class Box:
    input: str = "x"

    def open(self, input, *, compile=None):
        def inner(vars):
            return input, compile, vars

        return inner(self.open), self.input
