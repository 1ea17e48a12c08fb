"""
Reads the stories of *.scn files (README.md has the format): their steps, and the patterns of what they require.
"""

import copy
import os
import re

SERVERS = ("fake", "ours", "poolcounterd", "yrmcds", "beanstalkd")
DEFAULT_SERVERS = ("fake", "ours")
MAX_EXPANDED = 1 << 24


class BadScript(Exception):
    """A script has an error."""


class Failed(AssertionError):
    """The server's behaviour differs from the story."""


# --- reading scripts ---------------------------------------------------------------------------


class Step:
    """One line of a story. `tags` has the differences between servers."""

    TAG = re.compile(r"\s+\[(only )?(%s)(?:: ([^\]]*))?\]$" % "|".join(SERVERS))

    def __init__(self, path, number, line):
        self.where = "%s:%d" % (os.path.basename(path), number)
        self.tags = {}
        self.only = set()
        while True:
            found = self.TAG.search(line)
            if not found:
                break
            if found.group(1):
                self.only.add(found.group(2))
            else:
                self.tags[found.group(2)] = (found.group(3) or "").strip()
            line = line[: found.start()]
        self.line = line.rstrip()

    def for_server(self, server):
        """Returns the line for `server`; None if that server skips it."""
        if self.only and server not in self.only:
            return None
        tag = self.tags.get(server)
        if tag is None:
            return self.line
        if tag == "skip":
            return None
        if tag == "stop":
            return "stop"
        words = self.line.split(None, 2)
        if len(words) < 2 or words[1] != "<":
            raise BadScript("%s: only an answer can differ: %s" % (self.where, self.line))
        if tag in ("quiet", "closed"):
            return "%s %s" % (words[0], tag)
        return "%s < %s" % (words[0], tag)


class Story:
    def __init__(self, path, title, headers):
        self.path = path
        self.title = title
        self.steps = []
        self.servers = DEFAULT_SERVERS
        self.settings = {}
        self.others = []  # settings with which it is told again
        self.options = []  # of the real daemon
        self.limits = {}  # of its process
        self.user = None  # that starts it
        self.cannot = set()  # modes that it cannot bear
        self.broken = None  # why it fails as yet
        for key, value in headers:
            self.header(key, value)

    def header(self, key, value):
        if key == "servers":
            self.servers = tuple(value.split())
            unknown = set(self.servers) - set(SERVERS)
            if unknown:
                raise BadScript("%s: unknown servers: %s" % (self.path, " ".join(unknown)))
        elif key == "broken":
            self.broken = value
        elif key == "cannot":
            self.cannot |= set(value.partition(" because ")[0].split())
        elif key == "options":
            self.options = value.split()
        elif key == "limits":
            self.limits = dict(pair.split("=", 1) for pair in value.split())
        elif key == "as":
            self.user = int(value)
        else:
            self.settings, *self.others = [
                dict(pair.split("=", 1) for pair in part.split()) for part in value.split(" | ")
            ]

    @property
    def file(self):
        return os.path.splitext(os.path.basename(self.path))[0]

    @property
    def name(self):
        return "%s: %s" % (self.file, self.title)


def read_stories(path):
    """All stories of one file, in its order."""
    stories, headers = [], []
    with open(path, encoding="ascii") as f:
        for number, raw in enumerate(f, 1):
            line = raw.strip()
            found = re.match(r"#\s*(servers|settings|options|limits|as|cannot|broken):\s*(.*)$", line)
            if found:
                if stories:
                    stories[-1].header(*found.groups())
                else:
                    headers.append(found.groups())
            elif line.startswith("story "):
                stories.append(Story(path, line[len("story ") :].strip(), headers))
            elif line and not line.startswith("#"):
                if not stories:
                    raise BadScript("%s:%d: a line before the first story" % (path, number))
                stories[-1].steps.append(Step(path, number, raw.rstrip("\n").strip()))
    titles = [story.title for story in stories]
    if len(set(titles)) != len(titles):
        raise BadScript("%s: two stories of one title" % path)
    told = []
    for story in stories:
        if not story.steps:
            raise BadScript("%s has no steps" % story.name)
        for number, settings in enumerate(story.others, 2):
            again = copy.copy(story)
            again.title, again.settings = "%s (%d)" % (story.title, number), settings
            told.append(again)
    return stories + told


def read_folder(folder):
    stories = []
    for file in sorted(os.listdir(folder)):
        if file.endswith(".scn"):
            stories += read_stories(os.path.join(folder, file))
    return stories


_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})|\\(.)|\{((?:[^{}*\\]|\\.)+)\*(\d+)\}", re.S)
_LETTERS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"s": b" ", b"0": b"\0"}


def decode(text):
    r"""Bytes of a script's text: \xNN, \n \r \t \0, \s for a space, {ab*3} for ababab."""

    def replace(found):
        if found.group(1):
            return bytes([int(found.group(1), 16)])
        if found.group(2):
            return _LETTERS.get(found.group(2), found.group(2))
        count = int(found.group(4))
        unit = _ESCAPE.sub(replace, found.group(3))
        if len(unit) * count > MAX_EXPANDED:
            raise BadScript("too long: %s" % text)
        return unit * count

    return _ESCAPE.sub(replace, text.encode("latin-1"))


_VARIABLE = re.compile(r"(\\.)|\$(\w+)")


def substitute(text, known):
    """Puts known values in the place of `$name`; `\\$` is a dollar sign."""

    def replace(found):
        if found.group(1):
            return found.group(1)
        if found.group(2) not in known:
            raise BadScript("no answer had a value for $%s" % found.group(2))
        return known[found.group(2)]

    return _VARIABLE.sub(replace, text)


def line_pattern(text, known):
    """A regular expression for a line in which names without a value yet get one."""
    if text.startswith("~"):
        return text[1:].strip().encode("latin-1")
    text, any_more = re.subn(r" \.\.\.$", "", text)
    pattern, at, new = b"", 0, set()
    for found in _VARIABLE.finditer(text):
        name = found.group(2)
        if not name:
            continue
        pattern += re.escape(decode(text[at : found.start()]))
        at = found.end()
        if name == "_":
            pattern += rb"\S+"
        elif name in known:
            pattern += re.escape(known[name].encode("latin-1"))
        elif name in new:
            pattern += b"(?P=%s)" % name.encode()
        else:
            pattern += rb"(?P<%s>[^\s@]+)" % name.encode()
            new.add(name)
    pattern += re.escape(decode(text[at:]))
    return pattern + (b"(?: .*)?" if any_more else b"")


def parse_duration(text):
    """Nanoseconds of 5s, 20ms, 3us, 999ns, 2m, 1h."""
    found = re.fullmatch(r"(\d+)(ns|us|ms|s|m|h)", text)
    if not found:
        raise BadScript("no duration: %s" % text)
    unit = {
        "ns": 1,
        "us": 10**3,
        "ms": 10**6,
        "s": 10**9,
        "m": 60 * 10**9,
        "h": 3600 * 10**9,
    }
    return int(found.group(1)) * unit[found.group(2)]
