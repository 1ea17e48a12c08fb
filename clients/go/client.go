package counterd

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// margin is what the time to wait ends before a deadline of ctx, so that the server's refusal is heard.
const margin = 20 * time.Millisecond

// An Event is what OnEvent is called with.
type Event struct {
	Kind   string        // connect, disconnect, down, up, wait (an acquire ended), held (a hold ended), lost, retry, put, job
	Server string        // as configured
	Name   string        // of the lock, pool or tube
	Took   time.Duration // of connect, wait and held
	Result string        // locked, done, released, inserted, duplicate, ack, nack, bury; or the kind of Err in lower case
	Err    error
}

// A point is a server, for one protocol.
type point struct {
	text, proto, network, host, port string

	// Guarded by mu of the client's state.
	idle      []*link
	downUntil time.Time // zero: it is up
}

// A state is what a client and its workers share.
type state struct {
	options *options
	mu      sync.Mutex
	closed  bool
	points  map[string][]*point
}

// A Client has servers, defaults and idle connections. One is enough for a process: all goroutines may use it at once.
//
// A call ends with an *Error, or with ctx.Err() when ctx is done first: then its connection is closed, and what crossed
// that goes back. The time to wait that a server is told ends 20 ms before a deadline of ctx.
type Client struct {
	*state
	onEvent func(Event)
}

// Open makes a client, and connects to nothing. The url is counter://HOST[:PORT][,HOST...][?OPTION=VALUE...]; an empty one
// means $COUNTER_URL, else counter://127.0.0.1. The options o win over it; nil has none. Errors: ErrUsage.
func Open(url string, o *Options) (*Client, error) {
	if url == "" {
		url = os.Getenv("COUNTER_URL")
	}
	if url == "" {
		url = "counter://127.0.0.1"
	}
	if o == nil {
		o = &Options{}
	}
	checked, err := parse(url, o.given())
	if err != nil {
		return nil, err
	}
	return &Client{&state{options: checked, points: map[string][]*point{}}, o.OnEvent}, nil
}

// Close closes idle connections. Holds and jobs keep theirs until they end; later calls are ErrUsage.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	var idle []*link
	for _, points := range c.points {
		for _, at := range points {
			idle, at.idle = append(idle, at.idle...), nil
		}
	}
	c.mu.Unlock()
	for _, l := range idle {
		c.drop(l)
	}
	return nil
}

// tell calls the hook. What it panics with changes nothing.
func (c *Client) tell(kind, server, name string, since time.Time, result string, err error) {
	if c.onEvent == nil {
		return
	}
	event := Event{Kind: kind, Server: server, Name: quote(name), Result: result, Err: err}
	if !since.IsZero() {
		event.Took = time.Since(since)
	}
	var e *Error
	if result == "" && errors.As(err, &e) {
		event.Result = strings.ToLower(e.Kind.Error())
	}
	defer func() { _ = recover() }()
	c.onEvent(event)
}

// order returns the servers in the order of asking; those that are down come last.
func (c *Client) order(proto, target string) ([]*point, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, usage(target, "the client is closed")
	}
	return c.ordered(proto, target)
}

// ordered is order, with mu held, also of a client that is closed: its jobs go on.
func (c *Client) ordered(proto, target string) ([]*point, error) {
	points := c.points[proto]
	if points == nil {
		var err error
		if points, err = c.options.points(proto); err != nil {
			return nil, err
		}
		c.points[proto] = points
	}
	if len(points) == 1 {
		return points, nil
	}
	byText, texts := map[string]*point{}, []string(nil)
	for _, at := range points {
		byText[at.text] = at
		texts = append(texts, at.text)
	}
	var up, down []*point
	for _, text := range ServersFor(target, texts) {
		if at := byText[text]; time.Now().Before(at.downUntil) {
			down = append(down, at)
		} else {
			up = append(up, at)
		}
	}
	return append(up, down...), nil
}

// setDown notes that a server is down, or with a nil error that it is up. It tells of changes.
func (c *Client) setDown(at *point, err *Error) {
	c.mu.Lock()
	was := !at.downUntil.IsZero()
	at.downUntil = time.Time{}
	if err != nil {
		at.downUntil = time.Now().Add(c.options.down)
	}
	c.mu.Unlock()
	if err != nil && !was {
		c.tell("down", at.text, "", time.Time{}, "", err)
	} else if err == nil && was {
		c.tell("up", at.text, "", time.Time{}, "", nil)
	}
}

// take returns the newest idle connection that is still good, or nil.
func (c *Client) take(at *point) *link {
	for {
		c.mu.Lock()
		last := len(at.idle) - 1
		if last < 0 {
			c.mu.Unlock()
			return nil
		}
		l := at.idle[last]
		at.idle = at.idle[:last]
		c.mu.Unlock()
		if time.Since(l.since) <= c.options.idleTime && l.fresh() {
			return l
		}
		c.drop(l)
	}
}

// give gives a connection back, to be used again.
func (c *Client) give(l *link) {
	at, old := l.at, []*link(nil)
	l.since = time.Now()
	c.mu.Lock()
	if c.closed || l.partial || l.pos < len(l.buf) {
		old = append(old, l)
	} else {
		at.idle = append(at.idle, l)
	}
	for len(at.idle) > c.options.idle || len(at.idle) > 0 && l.since.Sub(at.idle[0].since) > c.options.idleTime {
		old, at.idle = append(old, at.idle[0]), at.idle[1:]
	}
	c.mu.Unlock()
	for _, l := range old {
		c.drop(l)
	}
}

func (c *Client) drop(l *link) {
	if l.close() {
		c.tell("disconnect", l.at.text, "", time.Time{}, "", nil)
	}
}

// connect makes a new connection. A server that can't be reached is down.
func (c *Client) connect(ctx context.Context, at *point, within time.Duration) (*link, error) {
	start := time.Now()
	c.mu.Lock()
	if !at.downUntil.IsZero() {
		at.downUntil = start.Add(c.options.down) // others pass by meanwhile
	}
	c.mu.Unlock()
	l, err := c.dial(ctx, at, within)
	if err == nil {
		c.tell("connect", at.text, "", start, "", nil)
		return l, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if due, ok := ctx.Deadline(); ok && !time.Now().Before(due) {
		return nil, context.DeadlineExceeded // the timer of ctx is late
	}
	e := &Error{Kind: ErrUnreachable, Message: "no connection to " + quote(at.host), Reason: quote(err.Error()), Server: at.text}
	if at.port != "" {
		e.Message += " port " + at.port
	}
	ours := false // no fault of the server
	for _, errno := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		ours = ours || errors.Is(err, errno)
	}
	if !ours {
		c.setDown(at, e)
	}
	return nil, e
}

// A call says how a request is made, and what is tried again.
type call struct {
	proto, target string
	timeout       time.Duration
	again         bool  // it is asked anew when the connection ended
	silent        bool  // and also when no answer came in time; then a refusal proves nothing of the first attempt
	own           *link // is tried first, and stays the caller's when the server refuses
	within        bool  // connecting and answers have what is left of timeout
}

// run asks a server, and others where that may be. It returns the connection, which is the caller's.
func (c *Client) run(ctx context.Context, points []*point, k call, ask func(*link)) (*link, error) {
	timeout, bound := k.timeout, time.Duration(-1)
	until := time.Now().Add(timeout)
	if due, ok := ctx.Deadline(); ok {
		if bound = time.Until(due) - margin; bound < 0 {
			bound = 0
		}
		if bound < timeout {
			timeout, until = bound, time.Now().Add(bound)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	left := func() time.Duration {
		if d := time.Until(until); d > 0 {
			return d
		}
		return 0
	}
	var failed *Error
	l := k.own
	for attempt := 0; ; {
		at, told := points[attempt%len(points)], timeout
		isOwn := l != nil
		if isOwn {
			at = l.at
		} else {
			l = c.take(at)
		}
		idle, err := l != nil, error(nil)
		if !idle {
			within := c.options.connectTimeout
			if k.within && left() < within {
				within = left()
			}
			l, err = c.connect(ctx, at, within)
		}
		if !idle || attempt > 0 {
			told = left()
		}
		tried := failed != nil && failed.is(ErrUnanswered)
		if err == nil {
			l.start(ctx, told)
			if l.tried = tried; k.within && told < l.io {
				l.io = told
			}
			ask(l)
			if err = l.finish(); err == nil && l.pos < len(l.buf) {
				err = malformed(string(l.buf[l.pos:]), "the server sent more than the answer")
			}
		}
		if err == nil {
			if !isOwn { // an old connection says nothing of new work
				c.setDown(at, nil)
			}
			return l, nil
		}
		e := failure(err, l != nil && l.socket.sent.Load())
		if l != nil && (e == nil || !e.is(ErrRefused)) {
			c.drop(l)
		} else if l != nil && !isOwn {
			c.give(l)
		}
		if l = nil; e == nil {
			return nil, err
		}
		e.place(at.text, k.target)
		if idle && e.is(ErrUnreachable) {
			continue
		}
		if strings.Contains(e.Answer, "SHUTTING_DOWN") {
			c.setDown(at, e)
		} else if e.is(ErrRefused) && !isOwn {
			c.setDown(at, nil)
		}
		unanswered := e.is(ErrUnanswered)
		if !e.is(ErrUnreachable) && !e.is(ErrDraining) && !(unanswered && k.again && (e.ended || k.silent)) {
			if k.silent && tried && e.is(ErrRefused) {
				failed.Answer = e.Answer // the first request may have been done
				return nil, failed
			}
			return nil, e
		}
		if attempt++; failed == nil || unanswered || failed.is(ErrUnreachable) {
			failed = e
		}
		most := len(points)
		if k.again && failed.is(ErrUnanswered) {
			most++
		}
		if attempt >= most {
			return nil, failed
		}
		c.tell("retry", e.Server, k.target, time.Time{}, "", e)
	}
}

// once is run, for what needs the connection no longer.
func (c *Client) once(ctx context.Context, k call, ask func(*link)) error {
	points, err := c.order(k.proto, k.target)
	if err != nil {
		return err
	}
	l, err := c.run(ctx, points, k, ask)
	if err == nil {
		c.give(l)
	}
	return err
}

// acquire is run, for holds. It tells how the wait ended.
func (c *Client) acquire(ctx context.Context, k call, ask func(*link)) (*link, error) {
	points, err := c.order(k.proto, k.target)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	l, err := c.run(ctx, points, k, ask)
	if err == nil {
		result := "locked"
		if l.done {
			result = "done"
		}
		c.tell("wait", l.at.text, k.target, start, result, nil)
	} else if e := (*Error)(nil); errors.As(err, &e) {
		c.tell("wait", e.Server, k.target, start, "", e)
	}
	return l, err
}
