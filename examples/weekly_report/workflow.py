"""Entry: facts of a week, prose about them, and the check that keeps the prose honest."""

from cloche import agent, deliver, phase, resource

from .helpers.week import Week
from .steps.check import contradictions
from .steps.facts import collect
from .steps.page import facts_as_text, write_page

PROSE = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 1, "maxLength": 120},
        "summary": {"type": "string", "minLength": 1, "maxLength": 2000},
        "highlights": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 8},
        "risks": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
    },
    "required": ["title", "summary", "highlights", "risks"],
    "additionalProperties": False,
}


def weekly_report(task):
    """The checked report of the ISO week in `task`; see README.md for the shapes."""
    week = Week.parse(task)
    with phase("collect"):
        facts = collect(week)
    with phase("write"):
        prompt = resource("prompt.md").replace("{week}", week.name).replace("{facts}", facts_as_text(facts))
        prose = agent(prompt, description=f"prose for {week.name}", tools=[], response_format=PROSE)
    wrong = contradictions(week, facts, prose)
    if wrong:
        raise ValueError(f"the reply contradicts the facts: {'; '.join(wrong)}")
    result = {"week": week.name, "facts": facts, "prose": prose}
    with phase("deliver"):
        deliver(write_page(week, facts, prose))
        deliver(result=result)
    return result
