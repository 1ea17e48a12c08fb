package main

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"time"

	counterd "example.org/counterd/clients/go"
)

var errBoom = errors.New("Boom")

type hold interface {
	Release() error
	Fail() error
	Context(context.Context) context.Context
	Err() error
}

// end waits for go, or until ctx is done.
func end(ctx context.Context, handle string) error {
	select {
	case how := <-endsOf(handle):
		if how == "fail" {
			return errBoom
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// scope gives back by itself, as a program does with defer.
func scope(ctx context.Context, client any, handle string, args words) error {
	value, err := call(ctx, client, text(args["call"]), args["args"].(map[string]any))
	if err != nil {
		return err
	}
	held := value.(hold)
	keep(handle, held)
	switch args["body"] {
	case "fail":
		err = errBoom
	case "stay":
		say(words{"event": "inside", "of": handle})
		err = end(ctx, handle)
	case "wait":
		say(words{"event": "inside", "of": handle})
		if err = end(held.Context(ctx), handle); err != nil && held.Err() != nil {
			err = held.Err()
		}
	}
	if err != nil {
		held.Fail()
		return err
	}
	return held.Release()
}

func worker(ctx context.Context, client *counterd.Client, handle string, args words) (any, error) {
	w := &counterd.Worker{Client: client, NoSignals: args["signals"] == false}
	if seconds, ok := args["backoff"].(float64); ok {
		w.Backoff = func(int) time.Duration { return time.Duration(seconds * 1e9) }
		delete(args, "backoff")
	}
	w.Handler = func(ctx context.Context, job *counterd.Job) (err error) {
		run := words{"event": "run", "of": handle, "id": job.ID, "tries": job.Tries, "body": shown(reflect.ValueOf(job.Body))}
		say(run)
		defer func() {
			run["event"], run["lost"] = "ran", job.Lost()
			say(run)
		}()
		word, number, _ := strings.Cut(string(job.Body), " ")
		seconds, _ := time.ParseDuration(number + "s")
		switch word {
		case "raise":
			return errBoom
		case "bury":
			return counterd.ErrBury
		case "retry":
			return &counterd.Retry{Delay: seconds}
		case "wait":
			return end(ctx, handle)
		case "sleep":
			select {
			case <-time.After(seconds):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	fill(w, args)
	keep(handle, w)
	var cut *counterd.CutOff
	err := w.Run(ctx)
	if errors.As(err, &cut) {
		return cut.Jobs, nil
	}
	return 0, err
}
