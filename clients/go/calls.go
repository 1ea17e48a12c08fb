package counterd

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const defaultTimeout = 10 * time.Second

// LockOptions of Client.Lock.
type LockOptions struct {
	Workers int           // as many may have it at once; 0: 1
	Queue   int           // holders and waiters together, at most; 0: Workers + 100
	Timeout time.Duration // of the whole call; 0: 10 s
	NoWait  bool          // asks once, and does not wait
	Shared  bool          // it is also granted, with Done, when another holder has done the work
}

// Lock takes a lock. ctx bounds the call, not the lock. Errors: ErrBusy, ErrQueueFull, ErrDraining, ErrEngineAway,
// ErrNoMemory, ErrTooMany, ErrFailed, ErrUsage.
func (c *Client) Lock(ctx context.Context, name string, o LockOptions) (*Lock, error) {
	f := form{target: name}
	verb, good := "ACQ4ME ", locked
	if o.Shared {
		verb, good = "ACQ4ANY ", shared
	}
	workers := f.count(o.Workers, "workers", 1, math.MaxUint32)
	queue := f.count(o.Queue, "queue", workers+100, math.MaxUint32)
	sent := f.name(name)
	k := call{proto: "text", target: name, timeout: f.timeout(o.Timeout, defaultTimeout, o.NoWait), again: true}
	if f.err != nil {
		return nil, f.err
	}
	l, err := c.acquire(ctx, k, func(l *link) {
		l.out = append(strconv.AppendInt(append(append(append(l.out[:0], verb...), sent...), ' '), workers, 10), ' ')
		l.out = append(wait(append(strconv.AppendInt(l.out, queue, 10), ' '), l.told), '\n')
		l.write(l.out, l.told)
		l.done = l.answer(good, "TIMEOUT QUEUE_FULL LOCK_HELD").at(0) == "DONE"
	})
	if err != nil {
		return nil, err
	}
	lock := &Lock{Name: name, Done: l.done}
	lock.Hold = c.hold(l, name, func(l *link, ok bool) string {
		l.write(append(append(append(l.out[:0], "RELEASE "...), sent...), '\n'), 0)
		return bad(l.answer(released, ""))
	})
	lock.in.shared = o.Shared
	return lock, nil
}

// Units takes count units of a counter of which limit may be held. It never waits. Errors: ErrBusy, ErrNoMemory, ErrFailed,
// ErrUsage.
func (c *Client) Units(ctx context.Context, name string, count, limit int) (*Units, error) {
	f := form{target: name}
	f.need(count > 0 && count <= limit && int64(limit) <= math.MaxUint32,
		"%d units of %d: 1 to 4,294,967,295 are allowed, and no more than the limit", count, limit)
	sent := f.name(name)
	if f.err != nil {
		return nil, f.err
	}
	l, err := c.acquire(ctx, call{proto: "binary", target: name, again: true}, func(l *link) {
		_, body := l.binary(request(opAcquire, sent, int64(count), int64(limit)), "")
		l.units(body, int64(count))
	})
	if err != nil {
		return nil, err
	}
	return &Units{Name: name, Count: count, Hold: c.hold(l, name, func(l *link, ok bool) string {
		status, body := l.binary(request(opRelease, sent, int64(count)), "\x01\x22")
		if status != 0 {
			return fmt.Sprintf("0x%02x %s", status, body)
		}
		return ""
	})}, nil
}

// units returns the number that a binary answer is; want: it has to be this one.
func (l *link) units(body []byte, want int64) (n int64) {
	for _, b := range body {
		n = n<<8 | int64(b)
	}
	if len(body) != 4 || want >= 0 && n != want {
		l.malformed(string(body))
	}
	return n
}

// Usage returns how many units of a counter are held; 0 if there is none. Errors: ErrFailed, ErrUsage.
func (c *Client) Usage(ctx context.Context, name string) (int64, error) {
	f := form{target: name}
	sent, n := f.name(name), int64(0)
	if f.err != nil {
		return 0, f.err
	}
	err := c.once(ctx, call{proto: "binary", target: name, again: true}, func(l *link) {
		if status, body := l.binary(request(opGet, sent), "\x01"); status == 0 {
			n = l.units(body, -1)
		}
	})
	return n, err
}

// MemberOptions of Client.Member.
type MemberOptions struct {
	Timeout time.Duration     // of the whole call; 0: 10 s
	NoWait  bool              // asks once, and does not wait
	Count   int               // members; 0: 1
	Name    string            // only this one
	Attrs   map[string]string // only those with all of these
	Purpose string            // use, clean or check; empty: use
	By      string            // a name of the caller, for people
}

// Member takes members of a pool, of the first that can serve of several with commas between, or of a pool of @GROUP.
// ctx bounds the call, not the hold. Errors: ErrBusy, ErrQueueFull, ErrNotFound, ErrWrong, ErrTooMany, ErrDenied,
// ErrDraining, ErrNoMemory, ErrFailed, ErrUsage.
func (c *Client) Member(ctx context.Context, target string, o MemberOptions) (*Member, error) {
	f := form{target: target}
	pools, head, tail := f.take(o)
	timeout := f.timeout(o.Timeout, defaultTimeout, o.NoWait)
	if f.err != nil {
		return nil, f.err
	}
	group := strings.HasPrefix(target, "@")
	if points, err := c.order("text", pools[0]); err != nil {
		return nil, err
	} else if (group || len(pools) > 1) && len(points) > 1 {
		return nil, usage(target, "with several servers, a target is one pool")
	}
	m := &Member{}
	l, err := c.acquire(ctx, call{proto: "text", target: pools[0], timeout: timeout, again: true}, func(l *link) {
		l.write(append(wait([]byte(head), l.told), tail...), l.told)
		w := l.answer(taken, "TIMEOUT QUEUE_FULL")
		m.Pool, m.All = w.at(1), nil
		for l.err == nil {
			if w.at(1) != m.Pool || !group && !contains(pools, m.Pool) {
				l.malformed(w.at(1))
			}
			if m.All = append(m.All, l.member(w)); len(m.All) == max(o.Count, 1) {
				break
			}
			w = l.more(taken, "-")
		}
	})
	if err != nil {
		return nil, err
	}
	m.Taken = m.All[0]
	all := m.All
	m.Hold = c.hold(l, m.Pool, func(l *link, ok bool) (answer string) {
		end, lines := " ok\n", ""
		if !ok {
			end = " fail\n"
		}
		for _, one := range all {
			lines += "RETURN " + strconv.FormatInt(one.Fence, 10) + end
		}
		l.write([]byte(lines), 0)
		for range all {
			if word := bad(l.more(returned, "")); answer == "" {
				answer = word
			}
		}
		return answer
	})
	return m, nil
}

// bad returns the first word of the answer to a release, unless it is as it should be.
func bad(w words) string {
	if word := w.at(0); word != "RELEASED" && word != "RETURNED" {
		return word
	}
	return ""
}

// PutOptions of Client.Put.
type PutOptions struct {
	Priority *uint32       // lower ones first; nil: 1024
	Delay    time.Duration // before it is ready; rounded up to seconds
	TTR      time.Duration // time to run; rounded up to seconds; 0: 60 s
	Key      string        // while there is a job of this key in the tube, a put of it is a duplicate; and it may be tried again
	At       time.Time     // when what it is about happened: an older put of its key is a duplicate
	Root     *Root         // the job that this one is part of
	Tries    int           // after so many runs it is abandoned; 0: never
}

// A Root names what jobs are part of: those with this signature and an older time are not run any more.
type Root struct {
	Signature string
	Time      time.Time
}

// A NewJob is one of PutMany.
type NewJob struct {
	Body []byte
	PutOptions
}

// A Put is what became of a job: its id. Duplicate: there is one of its key, and this is the id of that, or 0.
type Put struct {
	ID        int64
	Duplicate bool
}

// Put puts a job into a tube. Without a key it is never tried again. Errors: ErrTooBig, ErrDraining, ErrReadOnly,
// ErrQueueFull, ErrNoMemory, ErrFailed, ErrUsage.
func (c *Client) Put(ctx context.Context, tube string, body []byte, o PutOptions) (put Put, err error) {
	f := form{target: tube}
	line := append(append(append(make([]byte, 0, len(body)+300), "put-into "...), f.tube(tube)...), ' ')
	err = c.put(ctx, &f, f.record(line, body, &o), o.Key != "", inserted, func(l *link, w words) {
		put = l.put(w)
	})
	if err == nil {
		result := "inserted"
		if put.Duplicate {
			result = "duplicate"
		}
		c.tellPut(tube, result)
	}
	return put, err
}

// PutMany puts all of these jobs, or none: up to 1,000 and 16 MiB. Errors are those of Put; it is tried again only if every
// job has a key.
func (c *Client) PutMany(ctx context.Context, tube string, jobs []NewJob) (puts []Put, err error) {
	f := form{target: tube}
	var records []byte
	keyed := true
	for i := range jobs {
		records = f.record(records, jobs[i].Body, &jobs[i].PutOptions)
		keyed = keyed && jobs[i].Key != ""
	}
	f.need(len(jobs) >= 1 && len(jobs) <= 1000 && len(records) <= 16<<20, "1 to 1,000 jobs and 16 MiB can be put at once")
	sent := append([]byte(fmt.Sprintf("put-batch %s %d %d\r\n", f.tube(tube), len(jobs), len(records))), records...)
	err = c.put(ctx, &f, append(sent, '\r', '\n'), keyed, okAnswer, func(l *link, w words) {
		puts = l.batch(w.at(len(w)-1), len(jobs))
	})
	if err == nil {
		c.tellPut(tube, "inserted")
	}
	return puts, err
}

func (c *Client) put(ctx context.Context, f *form, sent []byte, keyed bool, good answers, parse func(*link, words)) error {
	if f.err != nil {
		return f.err
	}
	return c.once(ctx, call{proto: "jobs", target: f.target, again: keyed, silent: keyed}, func(l *link) {
		parse(l, l.jobs(sent, good, putRefusals, 0, true))
	})
}

func (c *Client) tellPut(tube, result string) {
	if points, err := c.order("jobs", tube); err == nil {
		c.tell("put", points[0].text, tube, time.Time{}, result, nil)
	}
}

// ask makes a request for jobs that never waits.
func (c *Client) ask(ctx context.Context, f *form, line string, good answers, refusals string, again, silent bool,
	parse func(*link, words)) error {
	if f.err != nil {
		return f.err
	}
	return c.once(ctx, call{proto: "jobs", target: f.target, again: again, silent: silent}, func(l *link) {
		w := l.jobs([]byte(line), good, refusals, 0, false)
		if l.err == nil && parse != nil {
			parse(l, w)
		}
	})
}

// Tube returns settings and counts of a tube, after setting what is given (order, claim, tries, limit, prune, remember,
// read_only). Numbers are int64, the rest is string. Without settings an unknown tube is ErrNotFound. Other errors:
// ErrFailed, ErrUsage.
func (c *Client) Tube(ctx context.Context, name string, settings map[string]string) (map[string]any, error) {
	f := form{target: name}
	line, refusals, all := "tube "+f.tube(name)+f.settings(settings)+"\r\n", "NOT_FOUND", map[string]any{}
	if len(settings) > 0 {
		refusals = ""
	}
	err := c.ask(ctx, &f, line, okAnswer, refusals, len(settings) == 0, false, func(l *link, w words) {
		l.entries(w.at(len(w)-1), func(key string, value any) { all[key] = value })
	})
	return all, err
}

// ReadyOptions of Client.Ready.
type ReadyOptions struct {
	After   string        // only tubes behind this one
	Limit   int           // tubes, up to 1,000; 0: 1,000
	Timeout time.Duration // it waits for so long, rounded up to seconds, for one
}

// TubeReady says how many jobs of a tube are ready.
type TubeReady struct {
	Tube string
	Jobs int64
}

// Ready returns the tubes with ready jobs, ordered by name: those of the pattern, which is a name, or a beginning and '*'.
// It returns none after the timeout. Errors: ErrFailed, ErrUsage.
func (c *Client) Ready(ctx context.Context, pattern string, o ReadyOptions) (all []TubeReady, err error) {
	f := form{target: pattern}
	start := strings.TrimSuffix(pattern, "*")
	f.need(pattern == "*" || isWord(start, 200, nameBytes) && start[0] != '-', "a pattern is a tube, or the beginning of tubes and '*'")
	rest := pattern + "\r\n"
	if o.After != "" {
		rest = pattern + " " + f.tube(o.After) + "\r\n"
	}
	limit := int(f.count(o.Limit, "limit", 1000, 1000))
	k := call{proto: "jobs", target: pattern, timeout: f.timeout(o.Timeout, 0, false), again: true}
	if f.err != nil {
		return nil, f.err
	}
	err = c.once(ctx, k, func(l *link) {
		wait := l.whole()
		line := fmt.Sprintf("ready %d %d %s", wait/time.Second, limit, rest)
		w := l.jobs([]byte(line), answers{"OK": 2, "TIMED_OUT": 1}, "", wait, false)
		if all = nil; w.at(0) != "OK" {
			return
		}
		l.entries(w.at(len(w)-1), func(key string, value any) {
			n, ok := value.(int64)
			if all = append(all, TubeReady{key, n}); !ok || len(all) > limit {
				l.malformed(key)
			}
		})
	})
	return all, err
}

// whole returns the time that is left in whole seconds, rounded up, or down at a deadline of ctx.
func (l *link) whole() time.Duration {
	wait := (l.told + time.Second - 1).Truncate(time.Second)
	if due, ok := l.ctx.Deadline(); ok && time.Until(due)-margin < wait {
		wait = l.told.Truncate(time.Second)
	}
	return wait
}

// A JobView is a job as ListJobs shows it.
type JobView struct {
	ID    int64
	State string
	Tries int
	Body  []byte // nil: the server can't read it any more
}

// ListJobs calls each with the tube's jobs in that state, which it asks for by 100. An error that each returns ends it,
// and is returned. Errors: ErrNotFound, ErrFailed, ErrUsage.
func (c *Client) ListJobs(ctx context.Context, tube, state string, each func(JobView) error) error {
	f := form{target: tube}
	head := "list-jobs " + f.tube(tube) + " " + f.state(state)
	for after := int64(0); ; {
		var page []JobView
		var following int64
		line := fmt.Sprintf("%s %d 100\r\n", head, after)
		err := c.ask(ctx, &f, line, answers{"LISTED": 3}, "NOT_FOUND", true, false, func(l *link, w words) {
			count := l.number(w.at(1), 0, 100)
			following, page = l.number(w.at(2), 0, math.MaxInt64), nil
			for ; count > 0 && l.err == nil; count-- {
				w := l.more(found, "-")
				job := JobView{ID: l.number(w.at(1), 1, math.MaxInt64)}
				if w.at(0) == "FOUND" {
					job.Body = l.body(w.at(2), c.options.maxBody)
					w = w[1:]
				}
				job.State, job.Tries = w.at(2), int(l.number(w.at(3), 0, math.MaxInt))
				page = append(page, job)
			}
			if following != 0 && following <= after {
				l.malformed(w.at(2))
			}
		})
		for i := 0; err == nil && i < len(page); i++ {
			err = each(page[i])
		}
		if after = following; err != nil || after == 0 {
			return err
		}
	}
}

// Clear deletes the tube's jobs in that state ("all": but reserved ones), and returns how many. Errors: ErrNotFound,
// ErrReadOnly, ErrFailed, ErrUsage.
func (c *Client) Clear(ctx context.Context, tube, state string) (n int64, err error) {
	f := form{target: tube}
	line := "clear " + f.tube(tube) + " " + f.state(state) + "\r\n"
	err = c.ask(ctx, &f, line, answers{"CLEARED": 2}, "NOT_FOUND READ_ONLY", false, false, func(l *link, w words) {
		n = l.number(w.at(1), 0, math.MaxInt64)
	})
	return n, err
}

// Delete deletes a job that nobody has reserved. Errors: ErrNotFound, ErrFailed, ErrUsage.
func (c *Client) Delete(ctx context.Context, id int64) error {
	f := form{target: strconv.FormatInt(id, 10)}
	f.need(id > 0, "id: it is above 0")
	return c.ask(ctx, &f, "delete "+f.target+"\r\n", answers{"DELETED": 1}, "NOT_FOUND", true, true, nil)
}

// Kick makes a buried or delayed job ready. Errors: ErrNotFound, ErrFailed, ErrUsage.
func (c *Client) Kick(ctx context.Context, id int64) error {
	f := form{target: strconv.FormatInt(id, 10)}
	f.need(id > 0, "id: it is above 0")
	return c.ask(ctx, &f, "kick-job "+f.target+"\r\n", answers{"KICKED": 1}, "NOT_FOUND", false, false, nil)
}
