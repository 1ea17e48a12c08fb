package counterd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// patience is how long a test waits for what has to come; the machine may stand still for seconds.
const patience = 30 * time.Second

// eventually waits until it is so.
func eventually(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !isSo(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it did not come to this: " + what)
		}
	}
}

// fake serves each connection with serve, and returns a client of it.
func fake(t *testing.T, o *Options, serve func(conn net.Conn, lines *bufio.Reader)) *Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn, bufio.NewReader(conn))
			}()
		}
	}()
	address := listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	c, err := Open("counter://"+address+"?jobs="+port+"&binary="+port, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// answering answers each line: TOLD is what its first word gets.
func answering(told map[string]string) func(net.Conn, *bufio.Reader) {
	return func(conn net.Conn, lines *bufio.Reader) {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			if _, err := io.WriteString(conn, told[word]); err != nil {
				return
			}
		}
	}
}

var locks = map[string]string{"ACQ4ME": "LOCKED\n", "RELEASE": "RELEASED\n"}

// daemon is a client of the daemon that the environment names.
func daemon(t *testing.T, o *Options) *Client {
	t.Helper()
	if os.Getenv("COUNTER_URL") == "" {
		t.Skip("COUNTER_URL names no daemon")
	}
	c, err := Open("", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestAShortDeadlineStillAsksOnce(t *testing.T) {
	asked := make(chan string, 1000)
	c := fake(t, nil, func(conn net.Conn, lines *bufio.Reader) {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			asked <- line
			io.WriteString(conn, "TIMEOUT\n")
		}
	})
	for until := time.Now().Add(patience); time.Now().Before(until); {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		_, err := c.Lock(ctx, "k", LockOptions{Timeout: time.Minute})
		cancel()
		if !errors.Is(err, ErrBusy) && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		select {
		case line := <-asked:
			if line != "ACQ4ME k 1 101 0.000\n" {
				t.Fatalf("the server was asked %q", line)
			}
			return
		default:
		}
	}
	t.Fatal("the server was never asked")
}

// resolve has a name server that knows two.test, which is 127.0.0.1 and 127.0.0.2.
func resolve(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		server.Close()
	})
	go func() {
		data := make([]byte, 2000)
		for {
			n, from, err := server.ReadFrom(data)
			if err != nil {
				return
			}
			end := 12 + bytes.IndexByte(data[12:n], 0) + 5 // of the question
			count := byte(0)
			if data[end-3] == 1 { // A
				count = 2
			}
			answer := append([]byte{data[0], data[1], 0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0}, data[12:end]...)
			for i := byte(1); i <= count; i++ {
				answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 127, 0, 0, i)
			}
			server.WriteTo(answer, from)
		}
	}()
}

func TestEachAddressHasItsShareOfATLSHandshake(t *testing.T) {
	resolve(t)
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	_, port, _ := net.SplitHostPort(first.Addr().String())
	second, err := net.Listen("tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Skip(err)
	}
	defer second.Close()
	met := make(chan struct{})
	go func() { // both say nothing
		if conn, err := second.Accept(); err == nil {
			close(met)
			conn.Close()
		}
	}()
	c, err := Open("counter://two.test:"+port+"?tls=1&connect_timeout=2", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Lock(context.Background(), "k", LockOptions{}); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
	within(t, "the second address is tried", met)
}

func TestErrorsHaveKinds(t *testing.T) {
	err := error(&Error{Kind: ErrBusy, Message: "m", Server: "s", Answer: quote("a\n\x00\xff\u200bé")})
	if !errors.Is(err, ErrBusy) || !errors.Is(err, ErrRefused) || errors.Is(err, ErrFailed) {
		t.Error("ErrBusy is ErrRefused, and not ErrFailed")
	}
	if want := `counterd: Busy: m; server: s; answer: a\n\x00\xff\u200bé`; err.Error() != want {
		t.Errorf("%s, not %s", err, want)
	}
	if long := quote(strings.Repeat("é\x01", 200)); len(long) > 200 || strings.HasSuffix(long, `\`) {
		t.Errorf("%q is not cut well", long)
	}
}

func TestContextOfAHold(t *testing.T) {
	type key struct{}
	cut := make(chan struct{})
	c := fake(t, nil, func(conn net.Conn, lines *bufio.Reader) {
		go func() {
			<-cut
			conn.Close()
		}()
		answering(locks)(conn, lines)
	})
	parent, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, 7))
	defer cancel()
	lock, err := c.Lock(parent, "a", LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	released := lock.Context(parent)
	if released.Err() != nil || released.Value(key{}) != 7 {
		t.Error("the context of a hold is done, or has not what its parent has")
	}
	if err := lock.Release(); err != nil || released.Err() != context.Canceled || lock.Err() != nil {
		t.Errorf("after the release: %v, %v, %v", err, released.Err(), lock.Err())
	}
	if lock.Context(parent).Err() == nil {
		t.Error("after the release a new context is not done")
	}
	if lock, err = c.Lock(parent, "b", LockOptions{}); err != nil {
		t.Fatal(err)
	}
	held := lock.Context(parent)
	close(cut)
	select {
	case <-held.Done():
	case <-time.After(patience):
		t.Fatal("a loss did not end the context")
	}
	if err := lock.Err(); !errors.Is(err, ErrLost) || lock.Context(parent).Err() == nil {
		t.Errorf("after the loss: %v", err)
	}
	if err := lock.Release(); !errors.Is(err, ErrLost) {
		t.Errorf("the release of a lost one: %v", err)
	}
	if parent.Err() != nil {
		t.Error("the parent is done")
	}
}

func TestCancelEndsALongPut(t *testing.T) {
	arrived, over := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(over) })
	c := fake(t, &Options{IOTimeout: time.Hour}, func(conn net.Conn, lines *bufio.Reader) {
		lines.ReadString('\n')
		io.WriteString(conn, "OK 4\r\n---\n\r\n")
		lines.ReadString('\n')
		close(arrived)
		<-over
	})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-arrived
		time.Sleep(50 * time.Millisecond)
		cancel()
	}()
	done := make(chan error)
	go func() {
		_, err := c.Put(ctx, "t", make([]byte, 64<<20), PutOptions{})
		done <- err
	}()
	select {
	case err := <-done:
		if err != context.Canceled {
			t.Fatal(err)
		}
	case <-time.After(patience):
		t.Fatal("it goes on")
	}
}

func TestAHookMayPanic(t *testing.T) {
	var mu sync.Mutex
	kinds := ""
	c := fake(t, &Options{OnEvent: func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		kinds += e.Kind + " "
		panic(e)
	}}, answering(locks))
	lock, err := c.Lock(context.Background(), "k", LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if kinds != "connect wait held " {
		t.Error(kinds)
	}
}

func TestAForgottenHoldClosesItsConnection(t *testing.T) {
	ended := make(chan struct{})
	c := fake(t, nil, func(conn net.Conn, lines *bufio.Reader) {
		answering(locks)(conn, lines)
		close(ended)
	})
	ctx := func() context.Context {
		lock, err := c.Lock(context.Background(), "k", LockOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * brief) // a goroutine reads it
		return lock.Context(context.Background())
	}()
	eventually(t, "the connection is closed, and the context done", func() bool {
		runtime.GC()
		select {
		case <-ended:
			return ctx.Err() != nil
		default:
			return false
		}
	})
}

func TestNoGoroutineIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	conns := make(chan net.Conn, 100)
	c := fake(t, nil, func(conn net.Conn, lines *bufio.Reader) {
		conns <- conn
		answering(locks)(conn, lines)
	})
	ctx, cancel := context.WithCancel(context.Background())
	var held []*Lock
	for i := 0; i < 20; i++ {
		lock, err := c.Lock(ctx, fmt.Sprint(i), LockOptions{})
		if err != nil {
			t.Fatal(err)
		}
		lock.Context(ctx)
		held = append(held, lock)
	}
	time.Sleep(4 * brief)
	for i, lock := range held {
		if i%2 == 0 {
			(<-conns).Close()
		} else if err := lock.Release(); err != nil && !errors.Is(err, ErrLost) {
			t.Fatal(err)
		}
	}
	cancel()
	c.Close()
	for _, lock := range held {
		lock.Release()
	}
	eventually(t, "as many goroutines as before", func() bool {
		return runtime.NumGoroutine() <= before+1 // that of the listener
	})
}

func TestACloseDoesNotKeepWhatComesBack(t *testing.T) {
	gone := make(chan struct{})
	c := fake(t, nil, func(conn net.Conn, lines *bufio.Reader) {
		answering(locks)(conn, lines)
		close(gone)
	})
	lock, err := c.Lock(context.Background(), "k", LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
	case <-time.After(patience):
		t.Fatal("the connection is open")
	}
	if _, err := c.Lock(context.Background(), "k", LockOptions{}); !errors.Is(err, ErrUsage) {
		t.Error(err)
	}
}

func TestManyGoroutinesShareAClient(t *testing.T) {
	c := daemon(t, &Options{Idle: 2, OnEvent: func(Event) {}})
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	defer cancel()
	var all sync.WaitGroup
	for i := 0; i < 16; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			own := fmt.Sprint("go-test-", i)
			for n := 0; n < 20; n++ {
				lock, err := c.Lock(ctx, "go-test", LockOptions{Workers: 3, Timeout: patience})
				if err != nil {
					t.Error(err)
					return
				}
				short, stop := context.WithTimeout(ctx, time.Duration(n)*time.Millisecond)
				if busy, err := c.Lock(short, own, LockOptions{}); err == nil {
					time.Sleep(time.Duration(n%3) * brief)
					busy.Release()
				}
				stop()
				if err := lock.Release(); err != nil {
					t.Error(err)
				}
				if _, err = c.Put(ctx, own, []byte("x"), PutOptions{}); err != nil {
					t.Error(err)
				}
				jobs, err := c.Claim(ctx, []string{own}, ClaimOptions{})
				if err != nil || len(jobs) != 1 {
					t.Errorf("%d jobs, %v", len(jobs), err)
					return
				}
				if err := jobs[0].Ack(); err != nil {
					t.Error(err)
				}
			}
		}(i)
	}
	all.Wait()
}

func TestAWorkerCarriesValuesAndEndsWithItsContext(t *testing.T) {
	type key struct{}
	c := daemon(t, nil)
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), key{}, "v"))
	defer cancel()
	if _, err := c.Put(ctx, "go-test-worker", nil, PutOptions{}); err != nil {
		t.Fatal(err)
	}
	w := &Worker{Client: c, Tubes: []string{"go-test-worker"}, NoSignals: true, Concurrency: 3}
	w.Handler = func(own context.Context, job *Job) error {
		cancel()
		time.Sleep(50 * time.Millisecond)
		if own.Value(key{}) != "v" || own.Err() != nil {
			t.Error("the end of the worker's context ended that of a handler, or it has other values")
		}
		return nil
	}
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	found, err := c.Tube(context.Background(), "go-test-worker", map[string]string{"order": "fifo"})
	if err != nil || found["current-jobs-reserved"] != int64(0) || found["current-jobs-ready"] != int64(0) {
		t.Errorf("%v, %v", found, err)
	}
	w.Stop()
	if err := w.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestARunOfARetryIsWrapped(t *testing.T) {
	c := daemon(t, nil)
	ctx := context.Background()
	if _, err := c.Put(ctx, "go-test-retry", nil, PutOptions{}); err != nil {
		t.Fatal(err)
	}
	runs := 0
	w := &Worker{Client: c, Tubes: []string{"go-test-retry"}, NoSignals: true}
	w.Handler = func(_ context.Context, job *Job) error {
		if runs++; runs == 1 {
			return fmt.Errorf("not yet: %w", &Retry{})
		}
		w.Stop()
		return fmt.Errorf("never: %w", ErrBury)
	}
	if err := w.Run(ctx); err != nil || runs != 2 {
		t.Fatal(err, runs)
	}
	buried := 0
	err := c.ListJobs(ctx, "go-test-retry", "buried", func(JobView) error {
		buried++
		return io.EOF
	})
	if err != io.EOF || buried != 1 {
		t.Error(err, buried)
	}
	if _, err := c.Clear(ctx, "go-test-retry", "all"); err != nil {
		t.Error(err)
	}
}

// FuzzAnswers gives all calls answers that are the fuzzer's: each ends, with an error of ours or without.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{"LOCKED\n", "TAKEN p m 7 - a=b\n", "OK 4\r\n---\n\r\nCLAIMED 1\r\nRESERVED 7 1 99 t 1\r\nx\r\n",
		"OK 4\r\n---\n\r\nOK 19\r\n---\n- INSERTED 7\n\r\n", "\x91\x02\x00\x00\x00\x00\x00\x04ctrd\x00\x00\x00\x01", "ERROR", "\r\n", " "} {
		f.Add([]byte(seed))
	}
	calls := []func(*Client, context.Context) error{
		func(c *Client, ctx context.Context) error { _, err := c.Lock(ctx, "k", LockOptions{}); return err },
		func(c *Client, ctx context.Context) error { _, err := c.Units(ctx, "k", 1, 1); return err },
		func(c *Client, ctx context.Context) error { _, err := c.Member(ctx, "p", MemberOptions{}); return err },
		func(c *Client, ctx context.Context) error { _, err := c.Put(ctx, "t", nil, PutOptions{}); return err },
		func(c *Client, ctx context.Context) error {
			_, err := c.PutMany(ctx, "t", make([]NewJob, 1))
			return err
		},
		func(c *Client, ctx context.Context) error {
			_, err := c.Claim(ctx, []string{"t"}, ClaimOptions{Count: 2})
			return err
		},
		func(c *Client, ctx context.Context) error { _, err := c.Tube(ctx, "t", nil); return err },
		func(c *Client, ctx context.Context) error { _, err := c.Ready(ctx, "*", ReadyOptions{}); return err },
		func(c *Client, ctx context.Context) error {
			return c.ListJobs(ctx, "t", "all", func(JobView) error { return nil })
		},
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		c := fake(t, &Options{MaxBody: 1000, IOTimeout: time.Second}, func(conn net.Conn, lines *bufio.Reader) {
			lines.ReadByte()
			conn.Write(answer)
			conn.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, lines)
		})
		defer c.Close()
		for _, call := range calls {
			var e *Error
			if err := call(c, context.Background()); err != nil && !errors.As(err, &e) {
				t.Fatal(err)
			}
		}
	})
}

func TestServersFor(t *testing.T) {
	for name, want := range map[string]string{"k": "abc", "page 1": "bac", "é": "cab"} {
		got := strings.Join(ServersFor(name, []string{"a:7531", "b:7531", "c:7531"}), "")
		if regexp.MustCompile(":7531").ReplaceAllString(got, "") != want {
			t.Errorf("%s has %s, not %s", name, got, want)
		}
	}
}

func TestAHandlerThatEndsItsGoroutineHasFailed(t *testing.T) {
	c := daemon(t, nil)
	ctx := context.Background()
	if _, err := c.Put(ctx, "go-test-exit", nil, PutOptions{}); err != nil {
		t.Fatal(err)
	}
	w := &Worker{Client: c, Tubes: []string{"go-test-exit"}, NoSignals: true, Tries: 1}
	w.Handler = func(context.Context, *Job) error {
		w.Stop()
		runtime.Goexit()
		return nil
	}
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Clear(ctx, "go-test-exit", "buried"); err != nil || n != 1 {
		t.Error(n, err)
	}
}

// A tardy context does not know yet that its deadline has passed.
type tardy struct{ context.Context }

func (tardy) Deadline() (time.Time, bool) { return time.Unix(1, 0), true }

func TestADeadlineWhileConnectingIsNoFaultOfTheServer(t *testing.T) {
	c := fake(t, &Options{OnEvent: func(e Event) {
		if e.Kind == "down" {
			t.Error(e)
		}
	}}, answering(locks))
	if _, err := c.Lock(tardy{context.Background()}, "k", LockOptions{}); err != context.DeadlineExceeded {
		t.Error(err)
	}
}

var oneJob = map[string]string{"tube": "OK 4\r\n---\n\r\n", "claim": "CLAIMED 1\r\nRESERVED 7 1 99 t 1\r\nx\r\n",
	"ack": "DELETED\r\n", "renew": "TOUCHED\r\n", "stats-job": "OK 12\r\n---\nttr: 60\n\r\n"}

func TestARetryWithADelayThatIsNoneComesBackAfterTheBackoff(t *testing.T) {
	for _, delay := range []time.Duration{-1, 150 * 365 * 24 * time.Hour, math.MaxInt64} {
		line := make(chan string, 1)
		c := fake(t, nil, func(conn net.Conn, lines *bufio.Reader) {
			for {
				text, err := lines.ReadString('\n')
				if word, _, _ := strings.Cut(text, " "); word == "nack" {
					line <- text
					io.WriteString(conn, "RELEASED\r\n")
				} else if err != nil || word == "claim" && len(line) > 0 {
					return
				} else {
					io.WriteString(conn, oneJob[word])
				}
			}
		})
		kinds := make(chan string, 100)
		w := &Worker{Client: c, Tubes: []string{"t"}, NoSignals: true}
		w.Backoff = func(int) time.Duration { return 7 * time.Second }
		w.OnEvent = func(e Event) { kinds <- e.Kind + " " + e.Result }
		w.Handler = func(context.Context, *Job) error {
			w.Stop()
			return &Retry{Delay: delay}
		}
		if err := w.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		close(kinds)
		told := ""
		for kind := range kinds {
			told += kind + ", "
		}
		if !strings.Contains(told, "retry usage, job nack") {
			t.Errorf("%v: %s", delay, told)
		}
		select {
		case text := <-line:
			if text != "nack 7 99 7\r\n" {
				t.Errorf("%v: %q", delay, text)
			}
		default:
			t.Errorf("%v: there was no nack", delay)
		}
	}
}

// within ends the test if this does not happen in time.
func within(t *testing.T, what string, happens <-chan struct{}) {
	t.Helper()
	select {
	case <-happens:
	case <-time.After(patience):
		t.Error("it did not come to this: " + what)
	}
}

func TestALossEndsContextsBeforeTheHookIsTold(t *testing.T) {
	var mu sync.Mutex
	var ctx context.Context
	told := make(chan struct{}, 100)
	answers := map[string]string{"ACQ4ME": "LOCKED\n", "renew": "NOT_FOUND\r\n", "stats-job": "NOT_FOUND\r\n"}
	for word, answer := range oneJob {
		if answers[word] == "" {
			answers[word] = answer
		}
	}
	cut := make(chan struct{})
	c := fake(t, &Options{OnEvent: func(e Event) {
		if e.Kind == "lost" || e.Kind == "disconnect" {
			mu.Lock()
			own := ctx
			mu.Unlock()
			within(t, "a context ends before the hook has returned", own.Done())
			told <- struct{}{}
		}
	}}, func(conn net.Conn, lines *bufio.Reader) {
		go func() {
			<-cut
			conn.Close()
		}()
		answering(answers)(conn, lines)
	})
	w := &Worker{Client: c, Tubes: []string{"t"}, NoSignals: true}
	w.Handler = func(own context.Context, job *Job) error {
		w.Stop()
		mu.Lock()
		ctx = own
		mu.Unlock()
		within(t, "a lost job ends the context of its handler", told)
		return nil
	}
	if err := w.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	lock, err := c.Lock(context.Background(), "k", LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	ctx = lock.Context(context.Background())
	mu.Unlock()
	for len(told) > 0 {
		<-told
	}
	close(cut)
	within(t, "a lost hold is told", told)
}

func TestTheEndOfTheGraceGivesAllJobsBackAtOnce(t *testing.T) {
	const count = 25
	var running sync.WaitGroup
	running.Add(count)
	end := make(chan struct{})
	defer close(end)
	c := fake(t, &Options{IOTimeout: time.Second}, answering(oneJob)) // it never answers nack
	w := &Worker{Client: c, Tubes: []string{"t"}, NoSignals: true, Concurrency: count, Grace: time.Millisecond}
	w.Handler = func(context.Context, *Job) error {
		running.Done()
		<-end
		return nil
	}
	var start time.Time
	go func() {
		running.Wait()
		start = time.Now()
		w.Stop()
	}()
	var cut *CutOff
	if err := w.Run(context.Background()); !errors.As(err, &cut) || cut.Jobs != count {
		t.Errorf("%v, but no handler had ended", err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestNoPlaceClaimsOnceTheGraceIsOver(t *testing.T) {
	asked := make(chan struct{}, 10)
	c := fake(t, nil, func(conn net.Conn, lines *bufio.Reader) {
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			} else if strings.HasPrefix(line, "claim") {
				asked <- struct{}{}
			} else {
				io.WriteString(conn, oneJob["tube"])
			}
		}
	})
	var open atomic.Int64
	w := &Worker{Client: c, Tubes: []string{"t"}, NoSignals: true, Concurrency: 3, Grace: time.Millisecond}
	w.OnEvent = func(e Event) {
		switch e.Kind {
		case "connect":
			open.Add(1)
		case "disconnect":
			open.Add(-1)
		default:
			t.Error(e)
		}
	}
	w.Handler = func(context.Context, *Job) error { return nil }
	go func() {
		for i := 0; i < w.Concurrency; i++ {
			<-asked
		}
		w.Stop()
	}()
	if err := w.Run(context.Background()); err != nil || open.Load() != 0 {
		t.Errorf("%v; %d claims wait", err, open.Load())
	}
}

func TestAHoldForgetsContextsThatHaveEnded(t *testing.T) {
	c := fake(t, nil, answering(locks))
	lock, err := c.Lock(context.Background(), "k", LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var live []context.Context
	for i := 0; i < 1000; i++ {
		parent, cancel := context.WithCancel(context.Background())
		ctx := lock.Context(parent)
		if i%100 == 0 {
			live = append(live, ctx)
			defer cancel()
		} else {
			cancel()
		}
	}
	if n := len(lock.in.ends); n > 100 {
		t.Errorf("it has %d contexts, of which %d live", n, len(live))
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
	for _, ctx := range live {
		if ctx.Err() == nil {
			t.Error("a context lives on")
		}
	}
}

func TestListJobsShowsAJobWithoutABody(t *testing.T) {
	c := fake(t, nil, answering(map[string]string{"tube": oneJob["tube"],
		"list-jobs": "LISTED 3 0\r\nFOUND 1 1 ready 0\r\nx\r\nUNREADABLE 2 buried 3\r\nFOUND 4 0 ready 1\r\n\r\n"}))
	said := ""
	err := c.ListJobs(context.Background(), "t", "all", func(j JobView) error {
		said += fmt.Sprintf("%d %s %d %s %v, ", j.ID, j.State, j.Tries, j.Body, j.Body == nil)
		return nil
	})
	if want := "1 ready 0 x false, 2 buried 3  true, 4 ready 1  false, "; err != nil || said != want {
		t.Errorf("%s, %v", said, err)
	}
}

func TestAnAckOnItsOwnConnectionDoesNotTellThatTheServerIsUp(t *testing.T) {
	kinds := ""
	c := fake(t, &Options{OnEvent: func(e Event) { kinds += e.Kind + " " }}, answering(oneJob))
	ctx := context.Background()
	jobs, err := c.Claim(ctx, []string{"t"}, ClaimOptions{})
	if err != nil || len(jobs) != 1 {
		t.Fatal(err)
	}
	c.setDown(jobs[0].claim.l.at, &Error{Kind: ErrDraining})
	if err := jobs[0].Ack(); err != nil || kinds != "connect down job " {
		t.Error(kinds, err)
	}
	if jobs, err = c.Claim(ctx, []string{"t"}, ClaimOptions{}); err != nil || kinds != "connect down job up " {
		t.Error(kinds, err)
	}
}
