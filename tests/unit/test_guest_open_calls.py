"""Which calls are unanswered, as the supervisor and the host see it, replies sent ahead included."""

import pytest
from cloche_guest.open_calls import OpenCalls
from cloche_guest.wire import WireError


def opened(*numbers, limit_bytes=1000, size=10):
    made = OpenCalls(limit_bytes=limit_bytes)
    for number in numbers:
        made.add(number, size)
    return made


def refused(act, *given):
    with pytest.raises(WireError) as caught:
        act(*given)
    return caught.value.code


def test_a_call_is_unanswered_until_its_reply_or_its_drop():
    calls = opened(1, 2, 3)
    assert calls.answered(2, ahead=False)
    assert not calls.answered(2, ahead=False)
    calls.drop(1)
    assert not calls.answered(1, ahead=False)
    assert (len(calls), 3 in calls) == (1, True)
    assert refused(calls.drop, 1) == refused(calls.drop, 2) == refused(calls.drop, 4) == "call.unknown"


def test_arguments_count_until_the_answer():
    calls = opened(1, limit_bytes=25)
    calls.add(2, 15)
    assert refused(calls.add, 3, 1) == "call.too_many"
    calls = opened(1, limit_bytes=25)
    calls.answered(1, ahead=False)
    calls.add(2, 25)
    assert (len(calls), 2 in calls) == (1, True)


def test_one_call_alone_may_be_larger():
    assert len(opened(1, limit_bytes=5)) == 1


def test_what_was_answered_ahead_is_not_unanswered_when_it_is_made():
    calls = opened(1)
    assert calls.answered(2, ahead=True)
    assert not calls.answered(2, ahead=True)
    calls.add(2, 10)
    assert (len(calls), 2 in calls) == (1, False)
    assert not calls.answered(2, ahead=False)
    assert calls.answered(1, ahead=True)  # sent when the call was on its way


def test_a_program_may_drop_what_was_answered_ahead_once():
    calls = OpenCalls(limit_bytes=100)
    calls.answered(1, ahead=True)
    assert refused(calls.drop, 1) == "call.unknown"
    calls.add(1, 10)
    calls.drop(1)
    assert refused(calls.drop, 1) == "call.unknown"


def test_calls_whose_replies_were_void_are_unanswered_again_but_for_those_that_were_dropped():
    calls = OpenCalls(limit_bytes=100)
    for number in (2, 1, 3, 4, 9):
        calls.answered(number, ahead=True)
    for number in (1, 2, 3, 4, 5):
        calls.add(number, 10)
    calls.drop(4)
    calls.void(2)
    assert [number for number in range(10) if number in calls] == [3, 5]
    assert calls.answered(3, ahead=False)
    assert calls.answered(6, ahead=True)  # on its way when the program said so
    calls.add(6, 10)
    assert 6 in calls


def test_a_reply_sent_ahead_may_cross_with_the_word_that_its_call_was_dropped():
    calls = opened(1, 2, 3)
    calls.drop(2)
    for number in (1, 2, 3):
        assert calls.answered(number, ahead=True)
    assert not calls.answered(2, ahead=True)
    calls.void(1)
    assert [number for number in range(5) if number in calls] == [3]


@pytest.mark.parametrize("taken", [-1, 2])
def test_a_program_cannot_have_taken_more_than_there_were(taken):
    calls = OpenCalls(limit_bytes=100)
    calls.answered(1, ahead=True)
    assert refused(calls.void, taken) == "frame.bad_field"


def test_a_program_gives_up_replies_sent_ahead_once():
    calls = OpenCalls(limit_bytes=100)
    calls.void(0)
    assert refused(calls.void, 0) == "frame.bad_field"
