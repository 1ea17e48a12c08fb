"""Stores results as JSON files: one for each row, with the result of every run.

A file is {"row", "tree", "date", "seconds", "asked", "rounds": [{subject: result}]}. It is written
again after each round, so an interrupted run loses nothing, and the report can be made again from
the files.
"""

import json
import os


class Store:
    def __init__(self, folder):
        self.folder = folder
        self._read = {}
        os.makedirs(folder, exist_ok=True)

    def _path(self, row_name):
        return os.path.join(self.folder, row_name + ".json")

    def read(self, row_name):
        """The stored results of a row; None if there are none."""
        if row_name not in self._read:
            try:
                with open(self._path(row_name)) as f:
                    self._read[row_name] = json.load(f)
            except FileNotFoundError:
                self._read[row_name] = None
        return self._read[row_name]

    def write(self, row_name, kept):
        path = self._path(row_name)
        with open(path + ".new", "w") as f:
            json.dump(kept, f, separators=(",", ":"))
            f.write("\n")
        os.replace(path + ".new", path)
        self._read[row_name] = kept

    def results(self, row_name, subject_name):
        """The result of each round; None if the subject failed or did not run."""
        kept = self.read(row_name)
        if kept is None:
            return []
        found = [one.get(subject_name) for one in kept["rounds"]]
        return [None if result is None or "failed" in result else result for result in found]

    def failures(self, row_name):
        """Pairs of a subject's name and the reason why its run failed."""
        kept = self.read(row_name)
        return [
            (name, result["failed"])
            for one in (kept["rounds"] if kept else [])
            for name, result in one.items()
            if "failed" in result
        ]
