"""
./dev torture clients --planted: copies of the libraries, each with one bug, and storms that must find it.
"""

import os
import shutil
import tempfile

import clients

# Name, whose workers run, file, text that is there, text instead, what breaks.
BUGS = [
    ("put-again", "python", "counterd/_core.py",
     "again=key is not None,\n            silent=key is not None,", "again=True,\n            silent=True,",
     "a put without a key is sent again"),
    ("loss-untold", "python", "counterd/_core.py",
     'self._gone = True\n            self._core.tell("lost", self.server, self.tube)\n',
     'self._core.tell("lost", self.server, self.tube)\n', "the handler of a lost job is not told"),
    ("clock-ignored", "python", "counterd/worker.py",
     "if sent >= ends:", "ends = max(ends, sent + 1)\n            if False:",
     "a job stays good after its ttr, while no server answers"),
    ("no-renewals", "python", "counterd/worker.py",
     "if not one.is_renewed and (", "if False and (", "long jobs are not renewed"),
    ("ack-is-delete", "python", "counterd/_core.py",
     'b"ack %d %d\\r\\n" % (self.id, self.token)', 'b"delete %d\\r\\n" % self.id', "a job is acked without its token"),
    ("ack-first", "python", "counterd/worker.py",
     "                self._handler(job)\n", "                await job._ack()\n                self._handler(job)\n",
     "a job is acked before its handler runs"),
    ("lost-reported", "python", "counterd/worker.py",
     "if job._gone and job not in self.overdue:\n                pass\n            elif error", "if error", "a lost job is acked"),
    ("end-is-loss", "python", "counterd/_core.py",
     "if link is own and link.ended():\n                raise EOFError",
     'if link is own and link.ended():\n                raise Lost("its connection has ended")',
     "a job is lost with its connection, also in tubes with leases"),
    ("not-cancelled", "asyncio", "counterd/aio.py",
     "            if job.lost:\n                task.cancel()\n", "", "the handler of a lost job is not cancelled"),
    ("php-put-again", "php", "src/Client.php", "$hasKey ? 1 : 0", "1", "a put without a key is sent again"),
    ("php-ack-first", "php", "src/Worker.php",
     "            ($this->handler)($job);\n", "            $job->ack();\n            ($this->handler)($job);\n",
     "a job is acked before its handler runs"),
    ("php-loss-untold", "php", "src/Job.php",
     "$this->isLost = !$isAgain;", "",
     "the handler of a lost job is told by the clock only"),
    ("node-put-again", "node", "lib/client.js",
     "const keyed = options.key != null;", "const keyed = true;", "a put without a key is sent again"),
    ("node-ack-first", "node", "lib/worker.js",
     "      await this.#handler(one.job, one.abort.signal);\n",
     "      await one.task.ack();\n      await this.#handler(one.job, one.abort.signal);\n",
     "a job is acked before its handler runs"),
    ("node-loss-untold", "node", "lib/worker.js",
     "    if (task.gone) this.#tell(one, 'the job is lost');\n", "", "the signal of a lost job does not abort"),
    ("node-clock-ignored", "node", "lib/worker.js",
     "      if (sent >= ends) {\n", "      ends = Math.max(ends, sent + 1);\n      if (!sent) {\n",
     "a job stays good after its ttr, while no server answers"),
    ("node-no-renewals", "node", "lib/worker.js",
     "    await this.#renewals(one);\n", "", "long jobs are not renewed"),
    ("node-end-is-loss", "node", "lib/holds.js",
     "own.fault) throw own.fault;", "own.fault) throw new Lost('its connection has ended');",
     "a job is lost with its connection, also in tubes with leases"),
    ("go-put-again", "go", "calls.go",
     'target: f.target, again: keyed, silent: keyed}', 'target: f.target, again: true, silent: true}',
     "a put without a key is sent again"),
    ("go-ack-first", "go", "worker.go",
     "\t\terr = r.Handler(ctx, job)\n", "\t\tjob.Ack()\n\t\terr = r.Handler(ctx, job)\n",
     "a job is acked before its handler runs"),
    ("go-loss-untold", "go", "job.go",
     "\t\t\tj.cancel(ErrLost)\n", "\t\t\t_ = ErrLost\n",
     "the context of a lost job does not end"),
    ("go-clock-ignored", "go", "worker.go",
     "if !sent.Before(ends) {", "if ends = ends.Add(time.Second); false {",
     "a job stays good after its ttr, while no server answers"),
    ("go-no-renewals", "go", "worker.go",
     "\tr.renewals(job, done)\n\t<-done\n", "\t<-done\n", "long jobs are not renewed"),
    ("go-end-is-loss", "go", "job.go",
     "if d.bury && !intact {", "if !intact {", "a job is lost with its connection, also in tubes with leases"),
    ("go-race", "go", "worker.go",
     "\t\tr.runs[job] = !gaveUp\n\t}\n\tr.mu.Unlock()\n",
     "\t}\n\tr.mu.Unlock()\n\tfor _, job := range jobs {\n\t\tr.runs[job] = !gaveUp\n\t}\n",
     "two goroutines write to one map"),
]  # fmt: skip
SEEDS = 4
JOBS = 700


def planted(folder, bug):
    """A copy of a library with the bug. Returns the paths of all; None if it does not apply."""
    name, kind, path, old, new, _ = bug
    paths = dict(clients.LIBRARIES)
    library = "python" if kind == "asyncio" else kind
    copy = os.path.join(folder, name)
    shutil.copytree(paths[library], copy, ignore=shutil.ignore_patterns("__pycache__"))
    paths[library] = copy
    with open(os.path.join(copy, path)) as f:
        text = f.read()
    if old not in text:
        return None
    with open(os.path.join(copy, path), "w") as f:
        f.write(text.replace(old, new))
    return paths


def found_by(paths, kind, seed):
    """What one storm says."""
    try:
        return clients.storm(seed, JOBS, 4, paths, [kind], deadline=120)[1]
    except (clients.Found, clients.wire.Timeout) as e:
        return [str(e)]


def main(names, seed):
    """Returns the exit status."""
    missed = 0
    clients.FAULTS *= 2
    for bug in BUGS:
        if names and bug[0] not in names:
            continue
        with tempfile.TemporaryDirectory(prefix="planted-") as folder:
            paths = planted(folder, bug)
            if paths is None:
                print("planted: %s: NOT APPLIED: %s has other text" % (bug[0], bug[2]), flush=True)
                missed += 1
                continue
            for number in range(SEEDS):
                found = found_by(paths, bug[1], seed + number)
                if found:
                    break
        said = "found by storm %d: %s" % (number + 1, found[0][:300]) if found else "NOT FOUND"
        missed += not found
        print("planted: %s (%s): %s" % (bug[0], bug[5], said), flush=True)
    print("planted: --seed %d: %d not found" % (seed, missed))
    return 1 if missed else 0
