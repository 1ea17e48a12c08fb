package counterd

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestASignalThatEndsTheContextTooIsNoSecondOne(t *testing.T) {
	c := fake(t, nil, answering(oneJob))
	ctx, cancel := context.WithCancel(context.Background())
	w := &Worker{Client: c, Tubes: []string{"t"}}
	w.Handler = func(own context.Context, job *Job) error {
		cancel()
		syscall.Kill(os.Getpid(), syscall.SIGTERM)
		select {
		case <-own.Done():
			t.Error("the grace is over")
		case <-time.After(300 * time.Millisecond):
		}
		return nil
	}
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
}

func TestALookupWithoutDescriptorsIsNoFaultOfTheServer(t *testing.T) {
	resolve(t)
	c, err := Open("counter://two.test:1", &Options{OnEvent: func(e Event) {
		if e.Kind == "down" {
			t.Error(e)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	none := limit
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Lock(context.Background(), "k", LockOptions{}); !errors.Is(err, ErrUnreachable) ||
		!strings.Contains(err.Error(), "too many open files") {
		t.Error(err)
	}
}
