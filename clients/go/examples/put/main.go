// Puts jobs: one with a key, which is put once however often it is tried, and many at once.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	counterd "example.org/counterd/clients/go"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	ctx := context.Background()
	client := must(counterd.Open("", nil))
	defer client.Close()
	options := counterd.PutOptions{Key: "welcome-7", Delay: time.Minute}
	first := must(client.Put(ctx, "mail", []byte("Dear customer"), options))
	second := must(client.Put(ctx, "mail", []byte("Dear customer"), options))
	fmt.Println("the same job:", second.Duplicate && second.ID == first.ID)

	var jobs []counterd.NewJob
	for i := 0; i < 3; i++ {
		jobs = append(jobs, counterd.NewJob{Body: []byte(fmt.Sprint("letter ", i))})
	}
	fmt.Println(len(must(client.PutMany(ctx, "mail", jobs))), "more")

	ready := must(client.Ready(ctx, "mail", counterd.ReadyOptions{}))
	mail := must(client.Tube(ctx, "mail", nil))
	fmt.Printf("ready: %d, delayed: %v\n", ready[0].Jobs, mail["current-jobs-delayed"])
	for _, state := range []string{"ready", "delayed"} {
		must(client.Clear(ctx, "mail", state))
	}
}
