module example.org/counterd/clients/go/examples

go 1.19

require example.org/counterd/clients/go v0.0.0

replace example.org/counterd/clients/go => ../
