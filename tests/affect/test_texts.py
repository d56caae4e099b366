from dataclasses import replace

from spear_ray.affect.texts import context_text, relationship_text
from tests.clips import dialogue_of, silence

PLAIN = dialogue_of(answer=silence(1.0), question=silence(1.0))


def test_a_stated_context_comes_before_prompts_and_prompts_before_the_transcript():
    roles = {"participant_a_prompt_text": "be warm", "participant_b_prompt_text": "be cold"}
    spoken = replace(PLAIN, question_text="P1: how are you?")
    assert context_text(spoken) == "P1: how are you?"
    assert context_text(replace(spoken, roles=roles)) == "be warm [SEP] be cold"
    assert context_text(replace(spoken, roles={**roles, "high_level_context": "a visit"})) == "a visit"
    assert context_text(PLAIN) == ""


def test_one_prompt_alone_keeps_its_place():
    assert context_text(replace(PLAIN, roles={"prompt_b": "be cold"})) == " [SEP] be cold"


def test_the_relationship_has_traces_three_parts():
    assert relationship_text({"relationship": "familiar", "relationship_detail": "friends"}) == " [SEP]  [SEP] friends"
    roles = {"speaker_a_role": "boss", "speaker_b_role": "clerk", "interaction_type": "talk"}
    assert relationship_text(roles) == "boss [SEP] clerk [SEP] talk"
    assert relationship_text({}) == ""
