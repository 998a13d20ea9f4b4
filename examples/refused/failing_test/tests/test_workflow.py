from .. import failing_test


def test_words_are_counted():
    assert failing_test("one two three") == 3


def test_two_blanks_in_a_row_make_no_word():
    assert failing_test("one  two") == 2
