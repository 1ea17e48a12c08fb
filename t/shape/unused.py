#!/usr/bin/python3
"""
Which functions, fields and options of src, proto and lib does no code use? `./dev unused` prints

    nobody        functions and variables that nothing refers to
    tests         those that only tests refer to
    own file      those that only their own file refers to, which could be static there
    own + tests   the same, but tests refer to them, too
    field         fields of structs that nothing reads, or only tests read
    option        fields of rows of options that no other code reads

A field is written by =, by += and ++ as a statement, by an initialiser, and as the first argument of
WRITERS; all else reads it.
"""

import collections
import glob
import multiprocessing
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "t", "mutants"))
import clang.cindex as clang  # noqa: E402  (Debian's python3-clang)
import generate  # noqa: E402
import mutants  # noqa: E402

Kind = clang.CursorKind
PRODUCT = ("src/", "proto/", "lib/", "bench/counterbench/", "build/")
JUDGED = ("src/", "proto/", "lib/")
WRITERS = {"memset", "memcpy", "memmove", "snprintf", "tally_add", "tally_sub", "atomic_init"}
STATEMENTS = (Kind.COMPOUND_STMT, Kind.IF_STMT, Kind.FOR_STMT, Kind.WHILE_STMT, Kind.CASE_STMT, Kind.DEFAULT_STMT)
# Not printed: a regular expression of a line, and why.
KNOWN = {
    r" lib/counter\.h": "programs use it",
    r" (slab_page\.pad|header\.align|listener_adopt\.storage): not used": "it makes room",
    r" (conn_head\.io|shared_chunk\.chunk): not used": "it makes one struct begin as another does",
}


def is_of(cursor, kind):
    return cursor.type.get_canonical().kind == kind


class Reader:
    """What one file refers to: sets of (what, symbol, file), and where symbols are defined."""

    def __init__(self, path):
        self.path, self.uses, self.defined, self.texts = path, set(), {}, {}
        arguments = mutants.arguments_of_clang() + ["-I/usr/include/lua5.1", '-DBUILT_WITH=""']
        for cursor in generate.parse(path, arguments).cursor.get_children():
            self.file = self.name_of(cursor.location.file)
            if self.file:
                self.inside = cursor.spelling if cursor.kind == Kind.FUNCTION_DECL else ""
                self.define(cursor)
                self.walk(cursor, None, cursor.type.spelling if cursor.kind == Kind.VAR_DECL else "")

    @staticmethod
    def name_of(file):
        """The name of a file below ROOT; "" for others."""
        path = os.path.relpath(file.name, ROOT) if file else ".."
        return "" if path.startswith("..") else path

    def define(self, cursor):
        if cursor.kind not in (Kind.FUNCTION_DECL, Kind.VAR_DECL) or not cursor.is_definition():
            return
        if cursor.storage_class != clang.StorageClass.STATIC or self.file.endswith(".h"):
            self.defined[cursor.spelling] = "%s:%d" % (self.file, cursor.location.line)

    @staticmethod
    def is_shared(found):
        """True for functions and variables that other files may have."""
        if found.kind not in (Kind.FUNCTION_DECL, Kind.VAR_DECL) or found.location.file is None:
            return False
        is_static = found.linkage == clang.LinkageKind.INTERNAL and found.location.file.name.endswith(".c")
        return found.linkage != clang.LinkageKind.NO_LINKAGE and not is_static

    def add(self, what, symbol):
        self.uses.add((what, symbol, self.file))

    def field(self, cursor):
        """A field by the place of its declaration and its name, or None."""
        field = cursor if cursor.kind == Kind.FIELD_DECL else cursor.referenced
        if field is None or field.kind != Kind.FIELD_DECL or not self.name_of(field.location.file):
            return None
        struct = field.semantic_parent
        while struct.kind in (Kind.STRUCT_DECL, Kind.UNION_DECL) and re.search("^$|unnamed|anonymous", struct.spelling):
            struct = struct.semantic_parent
        owner = "" if struct.kind == Kind.TRANSLATION_UNIT else struct.spelling
        return "%s:%d" % (self.name_of(field.location.file), field.location.line), "%s.%s" % (owner, field.spelling)

    def walk(self, cursor, parent, variable):
        kind, children = cursor.kind, list(cursor.get_children())
        if kind == Kind.FIELD_DECL:
            if self.file.startswith(JUDGED) and cursor.spelling:
                self.add("field", self.field(cursor))
        elif kind == Kind.DECL_REF_EXPR:
            found = cursor.referenced
            if found is not None and self.is_shared(found) and found.spelling != self.inside:
                self.add("use", found.spelling)
        elif kind == Kind.MEMBER_REF_EXPR:
            self.add("row" if "option_row" in variable else "read", self.field(cursor))
        elif kind == Kind.MEMBER_REF:
            is_offset = parent is not None and next(parent.get_children()).kind == Kind.TYPE_REF
            what = "write" if not is_offset else "row" if "option_row" in variable else "read"
            self.add(what, self.field(cursor))
        for child in self.after_written(cursor, parent, children):
            self.walk(child, cursor, variable)

    def after_written(self, cursor, parent, children):
        """Notes the field that this writes. Returns the children that are left to look at."""
        is_statement = parent is not None and parent.kind in STATEMENTS
        kind, target = cursor.kind, None
        if kind == Kind.BINARY_OPERATOR and len(children) == 2 and self.is_assignment(*children):
            target = children[0]
        elif kind == Kind.COMPOUND_ASSIGNMENT_OPERATOR and is_statement:
            target = children[0]
        elif kind == Kind.UNARY_OPERATOR and is_statement:
            target = children[0]
        elif kind == Kind.CALL_EXPR and cursor.spelling in WRITERS and len(children) > 1:
            return [children[0], *self.written(children[1], through=True), *children[2:]]
        return children if target is None else [*self.written(target), *children[1:]]

    def written(self, target, through=False):
        """
        Notes the fields that are written as a part of `target`; with `through`, as a part of what it points to.
        Returns what is read for it.
        """
        bare = target
        while through and bare.kind in (Kind.UNEXPOSED_EXPR, Kind.PAREN_EXPR):
            bare = next(bare.get_children())
        kind, children = bare.kind, list(bare.get_children())
        if through and kind == Kind.UNARY_OPERATOR and self.text(bare).startswith("&"):
            return self.written(children[0])
        if through and not is_of(bare, clang.TypeKind.CONSTANTARRAY):
            return [target]
        if kind == Kind.MEMBER_REF_EXPR:
            self.add("write", self.field(bare))
            is_part = children and is_of(children[0], clang.TypeKind.RECORD)
            return self.written(children[0]) if is_part else children
        if kind == Kind.ARRAY_SUBSCRIPT_EXPR:
            return [*self.written(children[0], through=True), children[1]]
        if kind == Kind.PAREN_EXPR:
            return self.written(children[0])
        return [target]

    def source(self, cursor):
        name = cursor.extent.start.file.name if cursor.extent.start.file else os.devnull
        if name not in self.texts:
            with open(name, "rb") as f:
                self.texts[name] = f.read()
        return self.texts[name]

    def text(self, cursor):
        return self.source(cursor)[cursor.extent.start.offset : cursor.extent.end.offset].decode()

    def is_assignment(self, left, right):
        between = self.source(left)[left.extent.end.offset : right.extent.start.offset].decode()
        return re.sub(r"/\*.*?\*/", "", between, flags=re.S).strip() == "="


def read(path):
    sys.setrecursionlimit(10000)
    reader = Reader(path)
    return reader.uses, reader.defined


def units():
    listed = subprocess.check_output(["git", "ls-files", "*.c"], cwd=ROOT, text=True).split()
    made = glob.glob(os.path.join(ROOT, "build", "src", "**", "*.c"), recursive=True)
    return [os.path.join(ROOT, n) for n in listed if not n.startswith(("t/package/", "lib/examples/", "t/system/"))] + made


def exported():
    with open(os.path.join(ROOT, "lib", "libcounter.map"), encoding="utf-8") as f:
        return set(re.findall(r"\w+", f.read())) | {"main"}


def findings():
    users, fields, defined = collections.defaultdict(lambda: collections.defaultdict(set)), set(), {}
    with multiprocessing.Pool() as pool:
        for uses, there in pool.imap_unordered(read, units(), chunksize=4):
            defined.update(there)
            for what, symbol, file in uses:
                if what == "field":
                    fields.add(symbol)
                else:
                    users[symbol][what].add(file)
    for name, place in sorted(defined.items(), key=lambda item: item[1]):
        own, files = place.split(":")[0], users[name]["use"]
        ours = {file for file in files if file.startswith(PRODUCT)}
        if not own.startswith(JUDGED) or name in exported():
            continue
        if not files:
            yield "nobody", place, name
        elif not ours:
            yield "tests", place, name
        elif own.endswith(".c") and ours <= {own}:
            yield "own file" if files == ours else "own + tests", place, name
    for symbol in sorted(fields):
        place, name = symbol
        read_by = users[symbol]["read"]
        is_row = bool(users[symbol]["row"])
        if any(file.startswith(PRODUCT) for file in read_by):
            continue
        how = "read by tests only" if read_by else "only written" if users[symbol]["write"] else "not used"
        yield "option" if is_row else "field", place, "%s: %s" % (name, how)


def main():
    for what, place, name in findings():
        line = "%-12s %-40s %s" % (what, place, name)
        if not any(re.search(known, line) for known in KNOWN):
            print(line)


if __name__ == "__main__":
    main()
