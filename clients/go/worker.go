package counterd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	claimTime  = 2 * time.Second        // an idle place waits so long at most for a job, so that it can end
	renewAfter = 400 * time.Millisecond // a job that runs shorter costs no renewal
	lastWords  = time.Second            // a handler has so long to end, once it is told to
)

// ErrBury is what a handler returns for a job to put aside, until somebody kicks it.
var ErrBury = errors.New("bury the job")

// A Retry is what a handler returns, as &Retry{Delay: d}, for a job that comes back after so long.
type Retry struct{ Delay time.Duration }

func (r *Retry) Error() string { return fmt.Sprintf("run the job again after %v", r.Delay) }

// A CutOff is what Worker.Run returns when so many handlers had not ended in time: their jobs went back.
type CutOff struct{ Jobs int }

func (e *CutOff) Error() string {
	return fmt.Sprintf("counterd: %d handlers had not ended in time, so their jobs went back", e.Jobs)
}

// A Worker claims jobs of the tubes, and calls Handler with each. The handler returns nil: ack; an error that is ErrBury:
// bury; a *Retry: nack; any other: nack after Backoff, and with Tries set and reached bury. A job that runs for longer is
// renewed meanwhile; when it is lost, the handler's context ends, with the cause ErrLost. A goroutine can't be ended:
// a handler that does not look at its context may still run after Grace, beside the next run of its job. One that panics ends
// the program.
type Worker struct {
	Client      *Client
	Tubes       []string
	Handler     func(context.Context, *Job) error
	Concurrency int                           // handlers at once, each with a connection, up to 1,000; 0: 1
	Backoff     func(tries int) time.Duration // nil: 1 s, doubled with each try, up to an hour, times 0.8 to 1.2
	Tries       int                           // a job that failed so often is buried; 0: never
	Grace       time.Duration                 // handlers may run for so long after the stop; 0: 30 s
	NoSignals   bool                          // else TERM and INT stop it, and a second one ends the grace
	OnEvent     func(Event)                   // nil: that of the client

	mu      sync.Mutex
	cancel  func() // stops this run
	stopped bool   // this run, or the next one
}

// A work is a run of a worker.
type work struct {
	*Worker
	c     *Client
	stop  context.Context // done: no more claims
	grace time.Duration
	halt  func()          // ends it
	last  context.Context // of claims: done at the end of the grace
	cut   func()          // ends it
	calls sync.WaitGroup  // claims

	mu      sync.Mutex
	runs    map[*Job]bool // whose handlers run
	failing bool
	gaveUp  bool // the grace is over
	fault   error
}

// Stop stops it: no more claims, and Run returns when all handlers have ended, or the grace. While Run does not
// run, before or between runs, it ends the next one at once. Any goroutine may call it.
func (w *Worker) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped = true; w.cancel != nil {
		w.cancel()
	}
}

// Run runs until ctx is done, Stop, TERM or INT; then handlers, which ctx does not end, run on for Grace at most, or until a
// second signal. It returns nil; a *CutOff if handlers had not ended by then; or what no claim can do without: ErrUsage,
// ErrUnsupported.
func (w *Worker) Run(ctx context.Context) error {
	f := form{}
	for _, tube := range w.Tubes {
		f.tube(tube)
	}
	places := f.count(w.Concurrency, "concurrency", 1, 1000)
	f.count(w.Tries, "tries", 0, math.MaxUint32)
	f.need(w.Grace >= 0 && w.Grace <= longest, "grace: up to 1,000,000 s is allowed, not %v", w.Grace)
	f.need(len(w.Tubes) > 0 && w.Client != nil && w.Handler != nil, "a worker needs a client, 1 tube or more, and a handler")
	if f.err != nil {
		return f.err
	}
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &work{Worker: w, c: w.Client, stop: stop, halt: cancel, runs: map[*Job]bool{}, grace: w.Grace}
	r.last, r.cut = context.WithCancel(context.Background())
	defer r.cut()
	if w.OnEvent != nil {
		r.c = &Client{w.Client.state, w.OnEvent}
	}
	if r.grace == 0 {
		r.grace = 30 * time.Second
	}
	w.mu.Lock()
	if w.cancel = cancel; w.stopped {
		cancel()
	}
	w.mu.Unlock()
	signals := make(chan os.Signal, 2)
	if !w.NoSignals {
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
		defer signal.Stop(signals)
	}
	var all sync.WaitGroup
	over := make(chan struct{})
	for all.Add(int(places)); places > 0; places-- {
		go r.place(&all)
	}
	go func() {
		all.Wait()
		close(over)
	}()
	cut := r.wait(over, signals)
	w.mu.Lock()
	w.cancel, w.stopped = nil, false
	w.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault == nil && cut > 0 {
		return &CutOff{cut}
	}
	return r.fault
}

// wait waits for the end of all places, or of the grace. It returns how many jobs went back.
func (r *work) wait(over chan struct{}, signals chan os.Signal) int {
	var late <-chan time.Time
	isSignalled := false
	for stopped := r.stop.Done(); ; {
		select {
		case <-over:
			return 0
		case <-late:
			return r.giveUp()
		case <-stopped:
			stopped, late = nil, time.After(r.grace)
		case <-signals:
			if isSignalled { // the first one may have ended ctx too
				return r.giveUp()
			}
			isSignalled = true
			r.halt()
		}
	}
}

// giveUp ends claims, and tells the handlers that still run as by a loss. Their jobs go back, but those that end meanwhile:
// it returns how many.
func (r *work) giveUp() int {
	var late []*Job
	r.mu.Lock()
	r.gaveUp = true
	for job := range r.runs {
		if !job.gone.Swap(true) {
			late = append(late, job)
			job.overdue.Store(true)
			job.cancel(ErrLost)
		}
	}
	r.mu.Unlock()
	r.cut()
	r.calls.Wait()
	if len(late) > 0 {
		time.Sleep(lastWords)
	}
	var all sync.WaitGroup
	var count atomic.Int64
	for _, job := range late {
		all.Add(1)
		go func(job *Job) {
			defer all.Done()
			if _, err := job.Nack(0); !errors.Is(err, ErrUsage) { // without an answer it goes back with its connection
				count.Add(1)
			}
		}(job)
	}
	all.Wait()
	return int(count.Load())
}

// claim claims a job, and makes the context of its handler; nil: none came. One that crosses the end of the grace goes back.
func (r *work) claim() (context.Context, *Job, error) {
	r.mu.Lock()
	if r.stop.Err() != nil {
		r.mu.Unlock()
		return nil, nil, nil
	}
	r.calls.Add(1)
	r.mu.Unlock()
	defer r.calls.Done()
	jobs, err := r.c.reserve(r.last, r.Tubes, ClaimOptions{Timeout: claimTime}, false)
	ctx, cancel := withCause(carried{r.stop})
	r.mu.Lock()
	gaveUp, first := r.gaveUp, err != nil && !r.failing // once for all places
	r.failing = err != nil
	for _, job := range jobs { // one at most
		job.cancel = cancel
		r.runs[job] = !gaveUp
	}
	r.mu.Unlock()
	if gaveUp {
		err = nil
	} else if first {
		r.c.tell("retry", failure(err, false).Server, r.Tubes[0], time.Time{}, "", err)
	}
	for _, job := range jobs {
		if !gaveUp {
			return ctx, job, err
		}
		job.abandon()
	}
	cancel(context.Canceled)
	return nil, nil, err
}

// place claims jobs and works, until the worker stops.
func (r *work) place(all *sync.WaitGroup) {
	defer all.Done()
	var delay time.Duration
	for r.stop.Err() == nil {
		ctx, job, err := r.claim()
		if job != nil {
			r.work(ctx, job)
		}
		if delay *= 2; err == nil {
			delay = 0
			continue
		}
		if errors.Is(err, ErrUsage) || errors.Is(err, ErrUnsupported) {
			r.mu.Lock()
			r.fault = err
			r.mu.Unlock()
			r.halt()
			return
		}
		delay = backoff(delay)
		select {
		case <-time.After(jittered(delay)):
		case <-r.stop.Done():
		}
	}
}

// backoff keeps a delay within 0.1 to 30 s.
func backoff(delay time.Duration) time.Duration {
	if delay < 100*time.Millisecond {
		return 100 * time.Millisecond
	} else if delay > 30*time.Second {
		return 30 * time.Second
	}
	return delay
}

// jittered returns a delay times 0.8 to 1.2, by the last digits of the clock, which no two programs share.
func jittered(delay time.Duration) time.Duration {
	return time.Duration(float64(delay) * (0.8 + float64(time.Now().UnixNano()/100%1000)/2500))
}

// A carried context has the values of its parent, and does not end with it.
type carried struct{ context.Context }

func (carried) Deadline() (time.Time, bool) { return time.Time{}, false }
func (carried) Done() <-chan struct{}       { return nil }
func (carried) Err() error                  { return nil }

// work calls the handler, renews the job meanwhile, and reports how it ended.
func (r *work) work(ctx context.Context, job *Job) {
	defer job.cancel(context.Canceled)
	err := errors.New("the handler has ended its goroutine")
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = r.Handler(ctx, job)
	}()
	r.renewals(job, done)
	<-done
	r.report(job, err)
	r.mu.Lock()
	delete(r.runs, job)
	r.mu.Unlock()
}

// renewals renews a job until its handler has ended, or it is lost. It is renewed by token at once when its connection ends.
// Its ttr is known from the first renewal on; until then the first try has io_timeout.
func (r *work) renewals(job *Job, done chan struct{}) {
	var ends time.Time
	var ttr, delay time.Duration
	cut := job.claim.l.ended
	timer := time.NewTimer(renewAfter)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return
		case <-cut:
			cut = nil
			timer.Stop()
		case <-timer.C:
		}
		sent := time.Now()
		if ends.IsZero() {
			ends = sent.Add(r.c.options.io)
		}
		if !sent.Before(ends) {
			job.lose()
			return
		}
		known, err := job.renew(ends.Sub(sent), ttr == 0)
		wait := time.Duration(0)
		if err == nil {
			if ttr == 0 {
				ttr = known
			}
			ends, wait, delay = sent.Add(ttr), ttr/3, 0
		} else if errors.Is(err, ErrLost) || errors.Is(err, ErrUsage) { // told already; reported meanwhile
			return
		} else {
			delay = backoff(2 * delay)
			if wait = jittered(delay); wait > time.Until(ends) {
				wait = time.Until(ends)
			}
		}
		timer.Reset(wait)
	}
}

// isDelay says that a job can come back after so long; else it tells why not.
func (r *work) isDelay(job *Job, delay time.Duration, what string) bool {
	f := form{target: job.Tube}
	if f.whole(delay, what); f.err != nil {
		r.c.tell("retry", job.Server, job.Tube, time.Time{}, "", f.err)
	}
	return f.err == nil
}

// delay returns after how long a failed job comes back.
func (r *work) delay(job *Job) time.Duration {
	if r.Backoff != nil {
		if delay := r.Backoff(job.Tries); r.isDelay(job, delay, "backoff") {
			return delay
		}
	}
	delay := time.Hour
	if job.Tries <= 12 {
		delay = time.Second << (job.Tries - 1)
	}
	return jittered(delay)
}

// report says how the handler ended, unless the job is not ours any more. One that was told to end may still end well by
// itself; else giveUp gives its job back.
func (r *work) report(job *Job, err error) {
	overdue := job.overdue.Load()
	if overdue && (err != nil || job.heard.Load()) {
		return
	}
	var retry *Retry
	if !job.gone.Load() || overdue { // the hook is told of errors; the job runs again, or was done
		switch {
		case err == nil:
			job.Ack()
		case errors.As(err, &retry) && r.isDelay(job, retry.Delay, "the delay of a Retry"):
			job.Nack(retry.Delay)
		case (errors.Is(err, ErrBury) || r.Tries > 0 && job.Tries >= r.Tries) && !job.isCut():
			job.Bury()
		default:
			job.Nack(r.delay(job))
		}
	}
	job.abandon()
}

// isCut says that the connection that reserved the job has ended.
func (j *Job) isCut() bool {
	l := j.claim.l
	l.turn.Lock()
	defer l.turn.Unlock()
	intact := l.wake()
	l.rest(nil)
	return !intact
}

// abandon ends a job that was not given back: it goes with its connection.
func (j *Job) abandon() {
	l := j.claim.l
	l.turn.Lock()
	defer l.turn.Unlock()
	if !j.over.Load() {
		j.leave(false)
	}
}
