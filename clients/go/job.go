package counterd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
)

// A Job is reserved, until Ack, Nack or Bury; after one of these all are ErrUsage. One goroutine at a time may use it; Lost
// is for all. A job that is forgotten goes back when it is collected.
type Job struct {
	ID, Token int64
	Tube      string
	Tries     int // 1 for its first run
	Body      []byte
	Server    string // as configured

	claim   *claim
	cancel  func(error) // ends the context of a worker's handler; nil: there is none
	gone    atomic.Bool // it is reserved no more
	heard   atomic.Bool // the caller knows
	over    atomic.Bool // it was given back
	overdue atomic.Bool // the grace of its worker was over before its handler had ended
}

// A claim is the connection of the jobs of one call. It is theirs until the last of them has ended.
type claim struct {
	c       *Client
	l       *link
	jobs    int // with its turn
	spoiled bool
}

// ClaimOptions of Client.Claim.
type ClaimOptions struct {
	Count   int           // jobs, up to 1,000; 0: 1
	Timeout time.Duration // of the whole call, rounded up to seconds, but down at a deadline of ctx; 0: 10 s
	NoWait  bool          // asks once, and does not wait
}

// Claim reserves 1 to Count jobs of the tubes, which take turns; none if none comes within the timeout. Errors: ErrReadOnly,
// ErrNoMemory, ErrFailed, ErrUsage.
func (c *Client) Claim(ctx context.Context, tubes []string, o ClaimOptions) ([]*Job, error) {
	return c.reserve(ctx, tubes, o, true)
}

func (c *Client) reserve(ctx context.Context, tubes []string, o ClaimOptions, again bool) ([]*Job, error) {
	f := form{}
	for _, tube := range tubes {
		f.target = tube
		f.tube(tube)
	}
	count := f.count(o.Count, "count", 1, 1000)
	rest := strings.Join(tubes, " ") + "\r\n"
	f.need(len(tubes) > 0 && len(rest) < 8000, "claim needs 1 tube or more, and a line of up to 8,000 bytes")
	k := call{proto: "jobs", timeout: f.timeout(o.Timeout, defaultTimeout, o.NoWait), again: again}
	if f.err != nil {
		return nil, f.err
	}
	k.target = tubes[0]
	points, err := c.order(k.proto, k.target)
	if err != nil {
		return nil, err
	}
	var jobs []*Job
	l, err := c.run(ctx, points, k, func(l *link) {
		wait := l.whole()
		line := fmt.Sprintf("claim %d %d %s", count, wait/time.Second, rest)
		w := l.jobs([]byte(line), claimed, "READ_ONLY", wait, false)
		jobs = nil
		if w.at(0) != "CLAIMED" {
			return
		}
		for n := l.number(w.at(1), 1, count); n > 0 && l.err == nil; n-- {
			w = l.more(reserved, "-")
			if l.err == nil && !contains(tubes, w.at(4)) {
				l.fail(malformed(w.at(4), "the server sent a job of another tube"))
			}
			jobs = append(jobs, &Job{ID: l.number(w.at(1), 1, math.MaxInt64), Token: l.number(w.at(3), 1, math.MaxInt64), Tube: w.at(4),
				Tries: int(l.number(w.at(5), 1, math.MaxInt)), Body: l.body(w.at(2), c.options.maxBody), Server: l.at.text})
		}
	})
	if err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		c.give(l)
		return nil, nil
	}
	own := &claim{c: c, l: l, jobs: len(jobs)}
	runtime.SetFinalizer(own, func(own *claim) {
		if own.jobs > 0 { // one was forgotten
			own.l.close()
		}
	})
	for _, job := range jobs {
		job.claim = own
	}
	l.rest(nil)
	return jobs, nil
}

// Lost says that the job is known to be reserved no more.
func (j *Job) Lost() bool {
	gone := j.gone.Load()
	j.heard.Store(gone)
	return gone
}

// lose is called once it is known to be reserved no more.
func (j *Job) lose() {
	if !j.gone.Swap(true) {
		if j.cancel != nil {
			j.cancel(ErrLost)
		}
		j.claim.c.tell("lost", j.Server, j.Tube, time.Time{}, "", nil)
		j.claim.c.tell("job", j.Server, j.Tube, time.Time{}, "lost", nil)
	}
}

// A deed is a request of a job.
type deed struct {
	line   string
	good   answers
	again  bool          // it is asked again when its answer did not come
	ends   bool          // whatever is said, the job takes no more calls
	stats  string        // an answer to stats-job is behind the first one, and has this number
	bury   bool          // that answer is the first one, and its number goes into a second request
	within time.Duration // for all; 0: no matter
}

// ask makes a request on the connection that reserved the job; if that is gone by token on another (bury: not then).
// NOT_FOUND is ErrLost, unless an earlier attempt may have been it. It returns the first word, and the number of stats.
func (j *Job) ask(d deed) (word string, number int64, err error) {
	own, c := j.claim, j.claim.c
	own.l.turn.Lock()
	if j.over.Load() {
		own.l.turn.Unlock()
		return "", 0, usage(j.Tube, "the job has been given back").place(j.Server, j.Tube)
	}
	intact, earlier, well := own.l.wake(), false, false
	if d.bury && !intact {
		err = (&Error{Kind: ErrLost, Message: "its connection has ended"}).place(j.Server, j.Tube)
	} else {
		c.mu.Lock()
		points, _ := c.ordered("jobs", j.Tube)
		c.mu.Unlock()
		k := call{proto: "jobs", target: j.Tube, timeout: d.within, again: d.again, silent: d.again, own: own.l, within: d.within > 0}
		var l *link
		l, err = c.run(context.Background(), points, k, func(l *link) {
			if earlier = l.tried; l == own.l && !intact {
				l.fail(io.EOF)
			}
			word, number = d.say(l, j.ID)
		})
		if err == nil {
			if l != own.l {
				c.give(l)
			}
			if well = word != "NOT_FOUND"; !well {
				e := &Error{Kind: ErrLost, Message: "it is reserved no more, or the first request has done it already", Answer: word, Sent: earlier}
				if earlier {
					e.Kind = ErrUnanswered
				}
				err = e.place(j.Server, j.Tube)
			}
		}
	}
	isLost := errors.Is(err, ErrLost)
	if d.ends {
		j.leave(well)
	} else {
		own.l.rest(nil)
	}
	own.l.turn.Unlock()
	if isLost {
		j.lose()
	}
	return word, number, err
}

// leave ends the job, in its turn. Behind the last one of a claim the connection goes back, if all have ended well.
func (j *Job) leave(well bool) {
	own := j.claim
	j.over.Store(true)
	own.jobs--
	own.spoiled = own.spoiled || !well
	if own.jobs > 0 {
		own.l.rest(nil)
	} else if own.spoiled {
		own.c.drop(own.l)
	} else {
		own.c.give(own.l)
	}
}

// say has the conversation of a deed.
func (d *deed) say(l *link, id int64) (word string, number int64) {
	w := l.jobs([]byte(d.line), d.good, "", 0, false)
	word = w.at(0)
	if refusal := l.err; d.stats != "" && !d.bury && (refusal == nil || errors.Is(refusal, ErrRefused) && !l.partial) {
		l.err = nil
		if w = l.more(stats, ""); refusal != nil {
			l.err = refusal
		}
	}
	if l.err == nil && d.stats != "" && w.at(0) == "OK" {
		if number = l.entry(w.at(len(w)-1), d.stats); d.bury && l.err == nil {
			w = l.jobs([]byte(fmt.Sprintf("bury %d %d\r\n", id, number)), buried, "", 0, false)
			word = w.at(0)
		}
	}
	if w.at(0) == "NOT_FOUND" {
		word = "NOT_FOUND"
	}
	return word, number
}

// end gives the job back, and tells so.
func (j *Job) end(kind string, d deed) (string, error) {
	d.ends = true
	word, _, err := j.ask(d)
	if err == nil {
		j.claim.c.tell("job", j.Server, j.Tube, time.Time{}, kind, nil)
	} else if !errors.Is(err, ErrLost) && !errors.Is(err, ErrUsage) {
		j.claim.c.tell("job", j.Server, j.Tube, time.Time{}, kind, err)
	}
	return word, err
}

// Ack: the job is done. It is tried once more by its token. Errors: ErrLost, ErrFailed, ErrUsage.
func (j *Job) Ack() error {
	_, err := j.end("ack", deed{line: fmt.Sprintf("ack %d %d\r\n", j.ID, j.Token), good: acked, again: true})
	return err
}

// Nack gives it back for another run, after the delay. Buried: its tries are used up. Errors: ErrLost, ErrFailed, ErrUsage.
func (j *Job) Nack(delay time.Duration) (buried bool, err error) {
	f := form{target: j.Tube}
	line := fmt.Sprintf("nack %d %d %d\r\n", j.ID, j.Token, f.whole(delay, "delay"))
	if f.err != nil {
		return false, f.err
	}
	word, err := j.end("nack", deed{line: line, good: nacked})
	return word == "BURIED", err
}

// Bury puts it aside, until somebody kicks it. Errors: ErrLost, also when its connection has ended; ErrFailed, ErrUsage.
func (j *Job) Bury() error {
	_, err := j.end("bury", deed{line: fmt.Sprintf("stats-job %d\r\n", j.ID), good: stats, stats: "pri", bury: true})
	return err
}

// Renew begins its time to run anew. Errors: ErrLost, ErrFailed, ErrUsage.
func (j *Job) Renew() error {
	_, err := j.renew(0, false)
	return err
}

// renew has so long at most; the first one returns the ttr of the job.
func (j *Job) renew(within time.Duration, first bool) (time.Duration, error) {
	d := deed{line: fmt.Sprintf("renew %d %d\r\n", j.ID, j.Token), good: renewed, again: true, within: within}
	if first {
		d.line += fmt.Sprintf("stats-job %d\r\n", j.ID)
		d.stats = "ttr"
	}
	_, ttr, err := j.ask(d)
	return time.Duration(ttr) * time.Second, err
}
