class A:
    def __class_getitem__(cls, item):
        return print(item)


X = A[1]


def words(text):
    if not text.strip():
        raise ValueError("the text is empty")
    return text.split()
