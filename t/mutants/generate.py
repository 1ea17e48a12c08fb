"""
Finds the places of src and proto where one small fault can be planted (candidates), and writes a
copy of the sources in which chosen ones are switched on at run time (mutant.h).

A mutant is named `file:function:operator:text`, and `#N` if the function has several of the same
text; never by line, so that names outlive changes elsewhere.

  compare   a comparison becomes its neighbour: < and <=, > and >=, == and !=
  branch    the condition of an `if` is never true
  bound     the same, where it compares with a limit
  constant  a number is one more
  call      a call whose result nobody takes is left out
  lock      a lock is neither taken nor given back in a function
"""

import os
import re
import subprocess
from collections import Counter, namedtuple

import clang.cindex as clang

Candidate = namedtuple("Candidate", "name file function operator text edits")
TURNED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
LOCKS = {"lock_acquire": "lock_release", "pthread_mutex_lock": "pthread_mutex_unlock"}
# What a call to one of these does is seen by people only, or is a check itself.
IDLE_CALLS = re.compile(r"^(log_|lock_assert|assert|__builtin|va_|lock_|pthread_mutex_)")
CHECKS = re.compile(r"\b(CHECK|assert)\(")  # what is never so
BOUND = re.compile(r"[A-Z_]*(MAX|LIMIT|ROOM|SIZE|LEN)\b|\b\w*(max|limit|room|size|capacity)\b")
Kind = clang.CursorKind


def parse(path, arguments):
    index = clang.Index.create()
    unit = index.parse(path, args=arguments, options=clang.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD)
    bad = [d for d in unit.diagnostics if d.severity >= clang.Diagnostic.Error]
    if bad:
        raise SystemExit("%s: clang: %s" % (path, bad[0]))
    return unit


class Finder:
    """Collects the candidates of one file."""

    def __init__(self, path, name, arguments):
        self.name = name
        with open(path, "rb") as f:
            self.source = f.read()
        self.found = []
        self.unit = parse(path, arguments)
        self.macros = [
            (c.extent.start.offset, c.extent.end.offset)
            for c in self.unit.cursor.get_children()
            if c.kind == Kind.MACRO_INSTANTIATION and self.is_here(c)
        ]
        for cursor in self.unit.cursor.get_children():
            if cursor.kind == Kind.FUNCTION_DECL and cursor.is_definition() and self.is_here(cursor):
                self.function = cursor.spelling
                self.locks, self.above = {}, []
                for child in cursor.get_children():
                    if child.kind == Kind.COMPOUND_STMT:
                        self.walk(child, None)
                self.add_locks()

    def is_here(self, cursor):
        file = cursor.location.file
        return file is not None and file.name == self.unit.spelling

    def text(self, start, end):
        return self.source[start:end].decode()

    def is_in_macro(self, start, end):
        """True if a macro's expansion covers this, or begins or ends within it."""
        return any((a <= start and end <= b) or a < start < b or a < end < b for a, b in self.macros)

    def add(self, operator, text, edits):
        shown = " ".join(text.split())
        shown = shown if len(shown) <= 90 else shown[:87] + "..."
        name = "%s:%s:%s:%s" % (self.name, self.function, operator, shown)
        self.found.append(Candidate(name, self.name, self.function, operator, shown, edits))

    def around(self, start, end):
        """The smallest expression or statement that has more than this."""
        for a, b in reversed(self.above):
            if b - a > end - start:
                return self.text(a, min(b, a + 200))
        return self.text(start, end)

    def add_locks(self):
        for calls in self.locks.values():
            if len({kind for kind, _ in calls}) == 2:
                edits = [(s, e, "(mutant(%%d) ? (void)0 : (void)%s)" % self.text(s, e).replace("%", "%%"))
                         for _, (s, e) in calls]  # fmt: skip
                self.add("lock", self.text(*calls[0][1]), edits)

    def walk(self, cursor, parent):
        kind = cursor.kind
        if kind in (Kind.CASE_STMT, Kind.INIT_LIST_EXPR):
            children = list(cursor.get_children())[1:] if kind == Kind.CASE_STMT else []
        elif kind == Kind.VAR_DECL and cursor.storage_class == clang.StorageClass.STATIC:
            return
        else:
            children = list(cursor.get_children())
        self.look(cursor, parent)
        self.above.append((cursor.extent.start.offset, cursor.extent.end.offset))
        for child in children:
            self.walk(child, cursor)
        self.above.pop()

    def look(self, cursor, parent):
        start, end = cursor.extent.start.offset, cursor.extent.end.offset
        if start >= end or self.is_in_macro(start, end) or not self.is_here(cursor):
            return
        kind, text = cursor.kind, self.text(start, end)
        if CHECKS.search(text) and kind != Kind.COMPOUND_STMT:
            return
        if kind == Kind.BINARY_OPERATOR:
            self.look_at_comparison(cursor, start, end)
        elif kind == Kind.INTEGER_LITERAL:
            if re.fullmatch(r"(0x[0-9a-fA-F]+|\d+)[uUlL]*", text):
                self.add("constant", self.around(start, end), [(start, end, "(%s + mutant(%%d))" % text)])
        elif kind == Kind.IF_STMT:
            self.look_at_branch(cursor)
        elif kind == Kind.CALL_EXPR and parent is not None and cursor.spelling:
            self.look_at_call(cursor, parent, start, end, text)

    def look_at_comparison(self, cursor, start, end):
        left, right = list(cursor.get_children())
        between = self.text(left.extent.end.offset, right.extent.start.offset)
        operator = re.sub(r"/\*.*?\*/", "", between, flags=re.S).strip()
        if operator not in TURNED:
            return
        a = self.text(start, left.extent.end.offset).replace("%", "%%")
        b = self.text(right.extent.start.offset, end).replace("%", "%%")
        new = "(mutant(%%d) ? (%s) %s (%s) : (%s) %s (%s))" % (
            a,
            TURNED[operator],
            b,
            a,
            operator,
            b,
        )
        self.add("compare", self.text(start, end), [(start, end, new)])

    def look_at_branch(self, cursor):
        condition = next(iter(cursor.get_children()))
        start, end = condition.extent.start.offset, condition.extent.end.offset
        if self.is_in_macro(start, end):
            return
        text = self.text(start, end)
        new = "!mutant(%%d) && (%s)" % text.replace("%", "%%")
        is_bound = re.search(r"[<>]", text.replace("->", "")) and BOUND.search(text)
        self.add("bound" if is_bound else "branch", text, [(start, end, new)])

    def look_at_call(self, cursor, parent, start, end, text):
        if parent.kind not in (Kind.COMPOUND_STMT, Kind.IF_STMT, Kind.FOR_STMT, Kind.WHILE_STMT):
            return
        after = self.source[end : end + 20].lstrip()
        if not after.startswith(b";"):
            return  # a condition, or a part of a for
        callee = cursor.spelling
        for take, give in LOCKS.items():
            if callee in (take, give):
                argument = text[text.index("(") :]
                self.locks.setdefault((take, argument), []).append((callee, (start, end)))
        if not IDLE_CALLS.match(callee):
            new = "(mutant(%%d) ? (void)0 : (void)%s)" % text.replace("%", "%%")
            self.add("call", text, [(start, end, new)])


def numbered(candidates):
    """Gives those of the same name a number each."""
    counts, seen = Counter(c.name for c in candidates), Counter()
    result = []
    for candidate in candidates:
        seen[candidate.name] += 1
        if counts[candidate.name] > 1:
            candidate = candidate._replace(name="%s#%d" % (candidate.name, seen[candidate.name]))
        result.append(candidate)
    return result


def find(root, arguments, wanted):
    """All candidates of the files of the tree at `root` for which `wanted(name)` is true."""
    listed = subprocess.check_output(["git", "ls-files", "src", "proto"], cwd=root, text=True)
    result = []
    for name in sorted(n for n in listed.split() if n.endswith(".c") and wanted(n)):
        result += numbered(Finder(os.path.join(root, name), name, arguments).found)
    return result


def choose(candidates, random, shares):
    """A sample in which each operator has its share; chosen ones do not overlap."""
    taken, chosen = {}, []
    for operator, count in shares.items():
        pool = [c for c in candidates if c.operator == operator]
        random.shuffle(pool)
        for candidate in pool:
            if count == 0:
                break
            spans = taken.setdefault(candidate.file, [])
            if any(s < b and a < e for a, b, _ in candidate.edits for s, e in spans):
                continue
            spans += [(a, b) for a, b, _ in candidate.edits]
            chosen.append(candidate)
            count -= 1
    return chosen


def rewrite(source, edits):
    """`edits`: (start, end, new text), which do not overlap."""
    for start, end, new in sorted(edits, reverse=True):
        source = source[:start] + new.encode() + source[end:]
    return source


def write(root, out, mutants):
    """Writes the files of the copy at `out` that have mutants: {number: candidate}."""
    by_file = {}
    for number, candidate in mutants.items():
        edits = [(s, e, new % number) for s, e, new in candidate.edits]
        by_file.setdefault(candidate.file, []).extend(edits)
    for name, edits in by_file.items():
        with open(os.path.join(root, name), "rb") as f:
            content = rewrite(f.read(), edits)
        with open(os.path.join(out, name), "wb") as f:
            f.write(content)
