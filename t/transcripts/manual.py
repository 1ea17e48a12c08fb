"""Compares the manuals, the sample file and the completions with what the programs say of themselves.

Run with the folder of the sources and the address of an admin interface; counterd and counterctl are found on the
PATH. It prints what differs.
"""

import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request

TOP, ADMIN = sys.argv[1:]


def same(what, got, wanted):
    if got != wanted:
        odd = set(got) ^ set(wanted) if isinstance(got, (list, set, dict)) else got
        print("%s: %s" % (what, odd or "differs"))


def read(name):
    with open(os.path.join(TOP, name), encoding="utf-8") as f:
        return f.read()


def run(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def ask(path):
    with urllib.request.urlopen("http://%s%s" % (ADMIN, path), timeout=60) as answer:
        return answer.read().decode()


def section(page, head):
    return re.search(r"^\.Sh %s\n(.*?)(?=^\.Sh |\Z)" % head, read("man/" + page), re.S | re.M)[1]


def items(text, macro):
    """The items of lists that begin with a macro: what follows it, and their text."""
    found = re.findall(r"^\.It %s ?([^\n]*)\n(.*?)(?=^\.It |^\.El|\Z)" % macro, text, re.S | re.M)
    same("items", len(dict(found)), len(found))
    return dict(found)


def named(text, name):
    """The strings of an array of the sources, or of a definition."""
    return re.findall(r'"(\w+)"', re.search(name + r".*$", read(text), re.M)[0])


# --- counterd -------------------------------------------------------------------------------------


def options_of_counterd(api):
    """Each option: its default, range and other name, and if a reload changes it."""
    rows = re.findall(r"^  (\S+) = (.*?)  \((.*?)(?:; or (\S+))?\)\n      \S", run("counterd", "--help"), re.M)
    reloadable = {option["key"]: option["reloadable"] for option in json.loads(api)["options"]}
    same("options of the help and the interface", [row[0] for row in rows], list(reloadable))
    return {key: (default.strip('"'), bounds, alias, reloadable[key]) for key, default, bounds, alias in rows}


def check_conf(options):
    page = read("man/counter.conf.5")
    found = items(page, "Ic")
    same("counter.conf(5)", set(found), set(options))
    for key, (default, bounds, alias, reloadable) in options.items():
        text = found.get(key, "")
        same(key + ", Default", re.findall(r"^Default: (.*?)\.?$", text, re.M)[0].startswith(default or "none"), True)
        if default:
            same(key + ", Default", text.count("\nDefault: %s.\n" % default), 1)
        same(key + ", Range", re.findall(r"^Range: (.*)\.$", text, re.M), [] if bounds == "text" else [bounds])
        same(key + ", Reloadable", text.count("\nReloadable.\n"), int(reloadable))
        same(key + ", other name", not alias or "\n.Ic %s\n" % alias in text, True)
    known = {*options, *(row[2] for row in options.values())}
    for name in "counter.conf.5", "counterd.8":
        same(name, set(re.findall(r"^\.Ic (\S+)", read("man/" + name), re.M)) - known, set())


def check_reloads(options):
    """Stories of reloads show each option that they change."""
    shown = re.findall(r"^file ([\w.]+) = ", read("t/scenario/daemon-reload.scn"), re.M)
    same(
        "options of daemon-reload.scn",
        {key for key, row in options.items() if row[3] and "NAME" not in key} - set(shown),
        set(),
    )


def check_sample(options):
    """It shows each option once, turns all listeners on, and may be uncommented."""
    on = {"counter.enable": "true", "jobs.enable": "true", "jobs.path": "/var/lib/counterd/jobs.db"}
    sample = read("conf/counter.conf")
    wanted = ["#%s = %s" % (key, row[0] or '""') for key, row in options.items() if key not in on]
    shown = re.findall(r"^#[a-z]\S* = .*", sample, re.M)
    same("the sample", sorted(shown), sorted(wanted))
    same("the sample", re.findall(r"^(\w\S*) = (.*)", sample, re.M), list(on.items()))
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write(re.sub(r"^#(?=[a-z]\S* = )", "", sample, flags=re.M))
        file.flush()
        said = subprocess.run(["counterd", "-t", "-f", file.name], capture_output=True, text=True, check=False)
        same("the sample", [line for line in said.stderr.splitlines() if "the pool is static" not in line], [])
    run("counterd", "-t", "-f", os.path.join(TOP, "conf/counter.conf"))


def check_counterd():
    page = read("man/counterd.8")
    flags = re.findall(r"^  -(\w)(?:, --(\S+))?(?: (\S+))?  ", run("counterd", "-h"), re.M)
    heads = []
    for letter, name, argument in flags:
        argument = " Ns = Ns Ar ".join(argument.split("="))
        heads.append(letter + (" , Fl -" + name if name else " Ar " + argument if argument else ""))
    same("flags of counterd(8)", list(items(page, "Fl")), heads)
    same("synopsis of counterd(8)", re.findall(r"^\.O[op] Fl (\w)", page, re.M), [flag[0] for flag in flags])
    words = lambda head, macro: sorted(re.findall(r"\w+", " ".join(items(section("counterd.8", head), macro))))
    signals = re.findall(r"SIG\w+", re.search(r"process_signals\[\] = .*", read("src/daemon/process.c"))[0])
    same("signals", words("SIGNALS", "Dv"), sorted([*signals, "SIGPIPE"]))
    variables = [
        *named("src/daemon/activation.c", "activation_variables"),
        *("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"),  # libsystemd reads them
        *named("src/daemon/upgrade.h", "define UPGRADE_VARIABLE"),
        *named("src/cluster/location.h", "define LOCATION_VARIABLE"),
    ]
    same("variables", words("ENVIRONMENT", "Ev"), sorted(variables))
    count = len(re.findall(r"PROCESS_EXIT_\w+,", read("src/daemon/process.h")))
    same("statuses", words("EXIT STATUS", ""), [str(status) for status in range(count)])


# --- the admin interface --------------------------------------------------------------------------


def check_routes():
    explained = re.findall(r"^\.It ((?:Li POST )?Pa /[\w/]*)", read("man/counterd-admin.7"), re.M)
    sources = "".join(map(read, glob.glob(os.path.join(TOP, "src/*/*.c"))))
    rows = re.findall(r'\{HTTP_(\w+), "(/[^"]*)", (\w+)', sources)
    same("routes are found", len(rows) > 30, True)
    for method, path, own in rows:
        item = ("Li POST " if method == "POST" else "") + "Pa " + path.replace("*", "ID")
        same("route " + item, own in ("get_page", "get_metrics") or item in explained, True)


def check_metrics():
    """Each metric has a help, samples with one set of labels, and an item that tells its type and these labels."""
    explained = items(read("man/counterd-admin.7"), "Ic(?= (?:counterd|process)_)")
    families = re.findall(r"# HELP (\S+) \S.*\n# TYPE \1 (\w+)\n((?:[^#].*\n)*)", ask("/metrics") + "# EOF")
    same("metrics", [name for name, _, _ in families if name not in explained], [])
    same("metrics of the manual", set(explained) - {name for name, _, _ in families}, set())
    for name, kind, samples in families:
        suffix = "(?:_bucket|_sum|_count)" if kind == "histogram" else ""
        found = re.findall(r"^%s%s(?:\{(.*)\})? \S+$" % (name, suffix), samples, re.M)
        same(name + ", samples", len(found), samples.count("\n"))
        same(name + ", samples", bool(found), not name.startswith("counterd_cluster_"))
        same(name + ", its name", name.endswith("_total"), kind == "counter")
        labels = {tuple(re.findall(r'(?:^|,)(?!le=)(\w+)="', one)) for one in found}
        same(name + ", sets of labels", len(labels) < 2, True)
        text = "\n" + explained.get(name, "")
        same(name + ", type", text.startswith("\n" + kind.capitalize()), True)
        same(name + ", labels", [one for one in sum(labels, ()) if "\n.Cm " + one not in text], [])


# --- counterctl -----------------------------------------------------------------------------------


def options_of(help_text):
    """Each option: its letter, argument and default."""
    rows = re.findall(r"^  (?:-(\w), |    )--([\w-]+)(?:=(\S+))?  ?(.*(?:\n {20,}.*)*)", help_text, re.M)
    default = lambda text: (re.findall(r"\(default: ([^);]*)", text) or [""])[0]
    return {name: (letter, argument, default(text)) for letter, name, argument, text in rows}


def check_counterctl():
    commands = re.findall(r"^  (\w+)  +\S", run("counterctl", "--help").partition("Options of")[0], re.M)
    has = {command: options_of(run("counterctl", command, "--help")) for command in commands}
    common = options_of(run("counterctl", "--help"))
    options = {name: row for rows in (common, *has.values()) for name, row in rows.items()}
    explained = items(section("counterctl.1", "COMMANDS"), "Ic")
    same("commands of counterctl(1)", [head.split(" ")[0] for head in explained], commands)
    for head, text in explained.items():
        command = head.split(" ")[0]
        takes = set(re.findall(r"^\.Fl -(\S+)", text.partition("\nTakes\n")[2].partition("\n.Pp")[0], re.M))
        own = set(has[command]) - set(common) - {"server"}
        same("counterctl(1), %s takes" % command, takes & set(options) - set(common), own)
    heads = {
        "%sFl -%s%s" % (row[0] and "Fl %s , " % row[0], name, row[1] and " Ar " + row[1])
        for name, row in options.items()
    }
    listed = items(section("counterctl.1", "OPTIONS"), "(?=Fl)")
    same("options of counterctl(1)", set(listed), heads)
    for head, text in listed.items():
        default = options[re.search(r"Fl -(\S+)", head)[1]][2]
        if default and " " not in default:  # no sentence
            same("default of " + head, len(re.findall(r"^Default: %s[.;]" % re.escape(default), text, re.M)), 1)
    statuses = re.findall(r"STATUS_\w+ = (\d+)", read("src/cli/status.h"))
    shown = [head.replace("+N", "") for head in items(section("counterctl.1", "EXIT STATUS"), "")]
    same("statuses of counterctl(1)", shown, statuses)
    check_completions(commands, has, common, options)


def check_completions(commands, has, common, options):
    lists = {**has, "''": common}
    for name in "counterctl", "_counterctl":
        text = read("conf/completion/" + name)
        found = re.findall(r"^    (\S+)\)\n        options='(.*?)'", text, re.S | re.M)
        same(name, {head for head, _ in found} - {"*"}, set(commands))
        for head, words in found:
            same("%s, %s" % (name, head), sorted(words.split()), sorted("--" + one for one in lists.get(head, common)))
    text = read("conf/completion/counterctl")
    same("commands of bash", re.search(r"local commands='(.*?)'", text, re.S)[1].split(), commands)
    value = re.search(r"_counterctl_has_value\(\).*?return 0", text, re.S)[0]
    valued = {"--" + name for name, row in options.items() if row[1]} | {
        "-" + row[0] for row in options.values() if row[0] and row[1]
    }
    same("options of bash with a value", set(re.findall(r"(?<= )--?[a-zA-Z][\w-]*", value)), valued)
    text = read("conf/completion/_counterctl")
    same("commands of zsh", re.findall(r"^        '(\w+):", text, re.M), commands)
    rows = re.findall(r"^    --(\S+)\) _counterctl_spec '(.?)' (\S+) '.*?( '' ;;)?$", text, re.M)
    found = {(name, letter, again, not flag) for name, letter, again, flag in rows}
    same("options of zsh", found, {(name, row[0], name, bool(row[1])) for name, row in options.items()})


OPTIONS = options_of_counterd(ask("/api/v1/config"))
check_conf(OPTIONS)
check_reloads(OPTIONS)
check_sample(OPTIONS)
check_counterd()
check_routes()
check_metrics()
check_counterctl()
