// A worker or producer of the campaign, in Go: `work ROLE URL FILE SETTINGS`. ROLE: work, produce.
// The same as work.py; a long handler looks at its context. clients.py builds it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	counterd "example.org/counterd/clients/go"
)

const look = 20 * time.Millisecond

type fields map[string]any

type settings struct {
	File        string
	Tubes       []string
	Concurrency int
	TTR         float64
	Pause       float64
	Jobs        [][]row
}

// row is what a producer puts: in JSON a list of label, tube, plan, and key or null.
type row struct{ label, tube, plan, key string }

func (r *row) UnmarshalJSON(data []byte) error {
	var values [4]*string
	if err := json.Unmarshal(data, &values); err != nil {
		return err
	}
	r.label, r.tube, r.plan = *values[0], *values[1], *values[2]
	if values[3] != nil {
		r.key = *values[3]
	}
	return nil
}

var file *os.File

// now is the system's monotonic clock, in seconds.
func now() float64 {
	var ts syscall.Timespec
	const monotonic = 1
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic(errno)
	}
	return float64(ts.Sec) + float64(ts.Nsec)/1e9
}

// note appends a line, by one write.
func note(what string, values fields) {
	values["e"], values["t"] = what, now()
	line, err := json.Marshal(values)
	if err == nil {
		_, err = file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

func handler(ctx context.Context, job *counterd.Job) error {
	of := func(values fields) fields {
		values["id"], values["token"] = job.ID, job.Token
		return values
	}
	words := strings.Split(string(job.Body), " ")
	note("start", of(fields{"tries": job.Tries, "tube": job.Tube, "label": words[0]}))
	seconds, looks := 0.0, []float64{}
	if len(words) > 2 {
		seconds, _ = strconv.ParseFloat(words[2], 64)
	}
	until := now() + seconds
	for at := now(); at < until; at = now() {
		if ctx.Err() != nil {
			note("lost", of(fields{"looks": looks}))
			return nil
		}
		looks = append(looks, at)
		time.Sleep(look)
	}
	how := "ok"
	if words[1] == "bury" || job.Tries == 1 && (words[1] == "raise" || words[1] == "retry") {
		how = words[1]
	}
	note("end", of(fields{"how": how, "looks": looks}))
	switch how {
	case "raise":
		return errors.New("as planned")
	case "retry":
		return &counterd.Retry{Delay: time.Second}
	case "bury":
		return counterd.ErrBury
	}
	return nil
}

func put(client *counterd.Client, rows []row, ttr time.Duration) ([]counterd.Put, error) {
	ctx, jobs := context.Background(), []counterd.NewJob{}
	for _, r := range rows {
		jobs = append(jobs, counterd.NewJob{
			Body: []byte(r.label + " " + r.plan), PutOptions: counterd.PutOptions{TTR: ttr, Key: r.key},
		})
	}
	if len(jobs) > 1 {
		return client.PutMany(ctx, rows[0].tube, jobs)
	}
	one, err := client.Put(ctx, rows[0].tube, jobs[0].Body, jobs[0].PutOptions)
	return []counterd.Put{one}, err
}

func produce(client *counterd.Client, set settings) error {
	for _, rows := range set.Jobs {
		labels, keyed := []string{}, true
		for _, r := range rows {
			labels = append(labels, r.label)
			keyed = keyed && r.key != ""
		}
		for {
			asked := now()
			puts, err := put(client, rows, time.Duration(set.TTR*float64(time.Second)))
			if err == nil {
				ids, duplicates := []int64{}, []bool{}
				for _, one := range puts {
					ids, duplicates = append(ids, one.ID), append(duplicates, one.Duplicate)
				}
				note("put", fields{"labels": labels, "ids": ids, "duplicates": duplicates, "asked": asked})
				break
			}
			var said *counterd.Error
			if !errors.Is(err, counterd.ErrFailed) || !errors.As(err, &said) {
				return err
			}
			note("failed", fields{"labels": labels, "error": said.Kind.Error(), "sent": said.Sent, "asked": asked})
			if said.Sent && !keyed {
				break // it may be there, and without a key must not be put again
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Duration(rand.ExpFloat64() * set.Pause * float64(time.Second)))
	}
	note("over", fields{})
	return nil
}

func run(role, url, given string) error {
	var set settings
	if err := json.Unmarshal([]byte(given), &set); err != nil {
		return err
	}
	if set.File != "" {
		data, err := os.ReadFile(set.File)
		if err == nil {
			err = json.Unmarshal(data, &set)
		}
		if err != nil {
			return err
		}
	}
	client, err := counterd.Open(url, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	if role == "produce" {
		return produce(client, set)
	}
	worker := &counterd.Worker{Client: client, Tubes: set.Tubes, Handler: handler, Concurrency: set.Concurrency}
	err = worker.Run(context.Background())
	var cut *counterd.CutOff
	nacked := 0
	if errors.As(err, &cut) {
		nacked, err = cut.Jobs, nil
	}
	note("over", fields{"nacked": nacked})
	return err
}

func main() {
	var err error
	if file, err = os.OpenFile(os.Args[3], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644); err != nil {
		panic(err)
	}
	defer func() {
		if r := recover(); r != nil {
			note("crash", fields{"text": fmt.Sprint(r)})
			panic(r)
		}
	}()
	if err = run(os.Args[1], os.Args[2], os.Args[4]); err != nil {
		note("crash", fields{"text": err.Error()})
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
