module example.org/counterd/clients/go

go 1.19
