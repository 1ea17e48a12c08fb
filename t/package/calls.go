// Takes a lock, puts and claims a job. t/package/inside builds it with each way to install the library.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	counterd "example.org/counterd/clients/go"
)

func expect(good bool, err error, what string) {
	if err != nil || !good {
		fmt.Fprintln(os.Stderr, "calls.go:", what, err)
		os.Exit(1)
	}
}

func main() {
	ctx := context.Background()
	client, err := counterd.Open("", nil)
	expect(true, err, "open")
	lock, err := client.Lock(ctx, "calls", counterd.LockOptions{Workers: 1, Timeout: 5 * time.Second})
	expect(true, err, "lock")
	count, err := client.Usage(ctx, "calls")
	expect(lock.Err() == nil && count == 1, err, "the lock is not held")
	expect(true, lock.Release(), "release")
	put, err := client.Put(ctx, "calls", []byte("body"), counterd.PutOptions{Key: "once"})
	expect(!put.Duplicate, err, "put")
	second, err := client.Put(ctx, "calls", []byte("body"), counterd.PutOptions{Key: "once"})
	expect(second.Duplicate, err, "the key is forgotten")
	jobs, err := client.Claim(ctx, []string{"calls"}, counterd.ClaimOptions{Timeout: 5 * time.Second})
	expect(len(jobs) == 1 && jobs[0].ID == put.ID && string(jobs[0].Body) == "body", err, "not the job that was put")
	expect(true, jobs[0].Ack(), "ack")
	expect(true, client.Close(), "close")
	fmt.Println("done")
}
