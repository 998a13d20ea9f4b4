def test_more(text):
    assert text
