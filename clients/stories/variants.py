"""Makes many stories of one: a table of values, or an answer that goes wrong at every byte."""

import copy
import re

from fake_server import encode, ok_answer


def variants(story):
    """
    Returns the stories that `story` stands for.

    `"each"`: one for each row, with `<KEY>` replaced by the row's value; where `<KEY>` is the whole
    string, by a value of any type. `"spoil"`: one for each byte of the send that is marked
    `"spoil": true`: the server sends so many bytes of it, then closes (`cut`), sends nothing more
    (`stall`), or goes on with bytes 255 (`garbage`). The script ends there; after `stall` and
    `garbage` the client has to close.
    """
    story = dict(story)
    rows, mode = story.pop("each", [{}]), story.pop("spoil", None)
    found = []
    for row in rows:
        one = _replace(story, row)
        found += _spoiled(one, mode) if mode else [one]
    if len(found) > 1:
        for i, one in enumerate(found):
            one["story"] += " [%d of %d]" % (i + 1, len(found))
    return found


def _replace(value, row):
    if isinstance(value, dict):
        return {_replace(k, row): _replace(v, row) for k, v in value.items()}
    if isinstance(value, list):
        return [_replace(v, row) for v in value]
    if isinstance(value, str):
        for key, by in row.items():
            if value == "<%s>" % key:
                return copy.deepcopy(by)
            if isinstance(by, (str, int)):
                value = value.replace("<%s>" % key, str(by))
    return value


def _scripts(story):
    for step in story["steps"]:
        ports = step.get("fake")
        for scripts in ports.values() if isinstance(ports, dict) else []:
            yield from (script for script in scripts if isinstance(script, list))


def _marked(script):
    for i, action in enumerate(script):
        if isinstance(action, dict) and action.get("spoil"):
            return i
    return None


def _spoiled(story, mode):
    marked = [script[_marked(script)] for script in _scripts(story) if _marked(script) is not None]
    tokens = _tokens(marked[0])
    found = []
    for size in range(len(tokens) - (len(_line_end(tokens)) if mode == "garbage" else 0)):
        one = copy.deepcopy(story)
        for script in _scripts(one):
            at = _marked(script)
            if at is not None:
                script[at:] = _wrong(script[at], mode, size)
        found.append(one)
    return found


def _tokens(action):
    """Returns the bytes of an action as stories write them in hexadecimal: `0a`, or `@0` to `@3`."""
    if "hex" in action:
        return re.findall("@[0-3]|[0-9a-f]{2}", action["hex"].replace("@", "@0@1@2@3"))
    data = action.get("ok") and ok_answer(action["ok"]) or encode(action["send"])
    return ["%02x" % byte for byte in data]


def _line_end(tokens):
    return next((tokens[-n:] for n in (2, 1) if tokens[-n:] in (["0d", "0a"], ["0a"])), [])


def _wrong(action, mode, size):
    """Returns what a script does instead of the action and all that follows."""
    tokens = _tokens(action)
    sent = tokens[:size]
    if mode == "garbage":
        end = _line_end(tokens)
        sent += ["ff"] * (len(tokens) - size - len(end)) + end
    return [{"hex": " ".join(sent)}, "close" if mode == "cut" else "end"]
