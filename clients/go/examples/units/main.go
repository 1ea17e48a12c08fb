// Units of a limit: at most 10 calls of an interface at once, of which this program makes 3.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	counterd "example.org/counterd/clients/go"
)

func inUse(ctx context.Context, client *counterd.Client) int64 {
	count, err := client.Usage(ctx, "api")
	if err != nil {
		log.Fatal(err)
	}
	return count
}

func main() {
	ctx := context.Background()
	client, err := counterd.Open("", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	units, err := client.Units(ctx, "api", 3, 10)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d calls, %d in use\n", units.Count, inUse(ctx, client))
	if _, err := client.Units(ctx, "api", 8, 10); errors.Is(err, counterd.ErrBusy) {
		fmt.Println("8 more are too many")
	}
	if err := units.Release(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(inUse(ctx, client), "in use")
}
