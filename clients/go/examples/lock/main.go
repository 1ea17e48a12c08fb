// A lock with a bounded queue: few render a page at once, others wait or are refused.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	counterd "example.org/counterd/clients/go"
)

func main() {
	ctx := context.Background()
	client, err := counterd.Open("", nil) // $COUNTER_URL, or this machine
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	options := counterd.LockOptions{Workers: 1, Queue: 2, Timeout: 5 * time.Second}
	lock, err := client.Lock(ctx, "render:42", options)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("rendering, lost:", lock.Err() != nil)

	options.Timeout = 200 * time.Millisecond
	_, err = client.Lock(ctx, "render:42", options)
	var refusal *counterd.Error
	if errors.Is(err, counterd.ErrBusy) && errors.As(err, &refusal) {
		fmt.Println("another one renders:", refusal.Answer)
	}
	if err := lock.Release(); err != nil {
		log.Fatal(err)
	}

	lock, err = client.Lock(ctx, "render:42", counterd.LockOptions{NoWait: true})
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release()
	fmt.Println("free again")
}
