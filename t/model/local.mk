# The model of what two workers do with one name. It is no program: only the plain run searches it.
TESTS += t/model/test_model.py
EXTRA_DIST += t/model/counter.pml t/model/model.py t/model/test_model.py
