// The same as calls.py, in Go: `calls SUBJECT TEXT_PORT JOBS_PORT REDIS_PORT [CA]`. SUBJECT: go (the library), bare-go
// (Write and Read with the same bytes). bench.py builds it.
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	counterd "example.org/counterd/clients/go"
)

const host = "127.0.0.1"

var body = bytes.Repeat([]byte("x"), 100)

// call makes one call, of jobs in that tube.
type call func(tube string)

func check(isSo bool, err error) {
	if err != nil {
		panic(err)
	}
	if !isSo {
		panic("a wrong answer")
	}
}

func library(text, jobs, ca string) map[string]call {
	url := fmt.Sprintf("counter://%s:%s?jobs=%s", host, text, jobs)
	if ca != "" {
		url += "&tls=1&tls_ca=" + ca
	}
	client, err := counterd.Open(url, nil)
	check(true, err)
	ctx := context.Background()
	return map[string]call{
		"lock": func(string) {
			lock, err := client.Lock(ctx, "bench", counterd.LockOptions{})
			check(true, err)
			check(true, lock.Release())
		},
		"put": func(tube string) {
			_, err := client.Put(ctx, tube, body, counterd.PutOptions{})
			check(true, err)
		},
		"claim": func(tube string) {
			got, err := client.Claim(ctx, []string{tube}, counterd.ClaimOptions{NoWait: true})
			check(len(got) == 1, err)
			check(true, got[0].Ack())
		},
	}
}

// connected returns what sends, and reads once.
func connected(port string) func(data string) string {
	conn, err := net.Dial("tcp", host+":"+port)
	check(true, err)
	buffer := make([]byte, 16384)
	return func(data string) string {
		check(true, conn.SetDeadline(time.Now().Add(10*time.Second)))
		_, err := conn.Write([]byte(data))
		check(true, err)
		n, err := conn.Read(buffer)
		check(true, err)
		return string(buffer[:n])
	}
}

func bare(text, jobs string) map[string]call {
	locks, queue := connected(text), connected(jobs)
	return map[string]call{
		"lock": func(string) {
			check(locks("ACQ4ME bench 1 101 10.000\n") == "LOCKED\n", nil)
			check(locks("RELEASE bench\n") == "RELEASED\n", nil)
		},
		"put": func(tube string) {
			said := queue("put-into " + tube + " 1024 0 60 100\r\n" + string(body) + "\r\n")
			check(strings.HasPrefix(said, "INSERTED "), nil)
		},
		"claim": func(tube string) {
			words := strings.Fields(queue("claim 1 0 " + tube + "\r\n"))
			check(words[0] == "CLAIMED", nil)
			check(queue("ack "+words[3]+" "+words[5]+"\r\n") == "DELETED\r\n", nil)
		},
	}
}

// used is the processor time of this process.
func used() float64 {
	var usage syscall.Rusage
	check(true, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func main() {
	name, text, jobs, ca := os.Args[1], os.Args[2], os.Args[3], ""
	if len(os.Args) > 5 {
		ca = os.Args[5]
	}
	var calls map[string]call
	if name == "go" {
		calls = library(text, jobs, ca)
	} else {
		calls = bare(text, jobs)
	}
	fmt.Println("{}")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var which, tube string
		var count int
		_, err := fmt.Sscan(lines.Text(), &which, &count, &tube)
		check(true, err)
		run := calls[which]
		before, begin := used(), time.Now()
		for i := 0; i < count; i++ {
			run(tube)
		}
		fmt.Printf("{\"seconds\": %.9f, \"cpu\": %.9f}\n", time.Since(begin).Seconds(), used()-before)
	}
}
