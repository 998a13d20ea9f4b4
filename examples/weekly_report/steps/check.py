"""Whether the prose says what the facts say: nothing invented, nothing important left out."""

import re

NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
COUNT = re.compile(r"(?<![\w.,-])\d+(?![\w-]|[.,]\d)")


def contradictions(week, facts, prose):
    """What is wrong with the prose, in sentences; empty when nothing is."""
    text = " ".join([prose["title"], prose["summary"], *prose["highlights"], *prose["risks"]])
    invented = set(NUMBER.findall(text)) - _known(week, facts)
    wrong = [f"the number {number} is in no fact" for number in sorted(invented)]
    counts = {
        "commits": facts["commits"],
        "closed to-dos": len(facts["closed"]),
        "open to-dos": facts["open"],
        "overdue to-dos": len(facts["overdue"]),
    }
    counted = set(COUNT.findall(text))
    wrong += [f"the number of {what} ({n}) is not mentioned" for what, n in counts.items() if str(n) not in counted]
    missing = [todo["id"] for todo in facts["overdue"] if not re.search(rf"\b{re.escape(todo['id'])}\b", text)]
    return wrong + [f"the overdue to-do {todo} is not mentioned" for todo in missing]


def _known(week, facts):
    counted = [facts["commits"], facts["open"], len(facts["closed"]), len(facts["overdue"]), len(facts["changes"])]
    counted += [len(facts["authors"]), *facts["authors"].values()]
    texts = [week.name, str(week.monday), str(week.sunday), *facts["subjects"], *facts["changes"], *facts["closed"]]
    texts += [f"{todo['id']} {todo['title']}" for todo in facts["overdue"]]
    spelt = {number.lstrip("0") or "0" for text in texts for number in NUMBER.findall(text)}
    return spelt | {number for text in texts for number in NUMBER.findall(text)} | {str(number) for number in counted}
