# Models for spin: of two workers and one name, and of two nodes that share a name. No change of a program can make
# a search fail, so only ./dev model searches them.
EXTRA_DIST += t/campaigns/model/cluster.pml t/campaigns/model/cluster.py t/campaigns/model/cluster_checks.pml \
    t/campaigns/model/cluster_engine.pml t/campaigns/model/cluster_faults.pml \
    t/campaigns/model/cluster_node.pml t/campaigns/model/counter.pml t/campaigns/model/model.py \
    t/campaigns/model/search.py
