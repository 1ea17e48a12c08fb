// A worker: runs a handler for each job, tries failed ones again, and ends on SIGTERM.
package main

import (
	"context"
	"fmt"
	"log"

	counterd "example.org/counterd/clients/go"
)

func main() {
	ctx := context.Background()
	client, err := counterd.Open("", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	var jobs []counterd.NewJob
	for _, body := range []string{"letter 1", "letter 2", "no address"} {
		jobs = append(jobs, counterd.NewJob{Body: []byte(body)})
	}
	if _, err := client.PutMany(ctx, "letters", jobs); err != nil {
		log.Fatal(err)
	}

	worker := &counterd.Worker{Client: client, Tubes: []string{"letters"}}
	worker.Handler = func(ctx context.Context, job *counterd.Job) error {
		body := string(job.Body)
		if body == "no address" && job.Tries == 1 {
			return &counterd.Retry{} // at once; any other error: later, and later still
		}
		fmt.Printf("sent %s, try %d\n", body, job.Tries)
		if body == "no address" {
			worker.Stop() // here only, so that the example ends
		}
		return nil
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("all ended well")
}
