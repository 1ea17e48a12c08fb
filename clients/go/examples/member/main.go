// A member of a pool: which GPU is mine, and since when. The daemon needs
// pool.gpu.members = gpu0=/dev/nvidia0
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	counterd "example.org/counterd/clients/go"
)

var highestFence int64

// use stands for the device, which refuses fences below the highest that it has seen.
func use(device string, fence int64) error {
	if fence < highestFence {
		return errors.New("another program has this device by now")
	}
	highestFence = fence
	fmt.Println("working on", device)
	return nil
}

func main() {
	client, err := counterd.Open("", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for i := 0; i < 2; i++ {
		options := counterd.MemberOptions{Timeout: 10 * time.Second, By: "member"}
		gpu, err := client.Member(context.Background(), "gpu", options)
		if err != nil {
			log.Fatal(err)
		}
		if err := use(gpu.Value, gpu.Fence); err != nil {
			gpu.Fail() // An operator looks at it before the next one gets it.
			log.Fatal(err)
		}
		if err := gpu.Release(); err != nil {
			log.Fatal(err)
		}
		fmt.Println("gave back", gpu.Name)
	}
}
