package counterd

import (
	"context"
	"runtime"
	"sync"
	"time"
)

// A Lock is held until Release, or until its connection ends.
type Lock struct {
	*Hold
	Name string
	Done bool // the work was done by another, and nothing is held
}

// Units of a counter.
type Units struct {
	*Hold
	Name  string
	Count int
}

// Taken is one member of a pool that is held.
type Taken struct {
	Name, Value string // Value: empty, if it has none
	Attrs       map[string]string
	Fence       int64 // it grows with each hold: pass it on, so that the resource can refuse lower ones
}

// A Member is a hold of members of a pool: of the first its own fields are, and All has all of them.
type Member struct {
	*Hold
	Pool string
	Taken
	All []Taken
}

// A Hold is what Lock, Units and Member have in common. One goroutine at a time may use it; Err and Context are for all.
// One that is forgotten gives back what it holds when it is collected.
type Hold struct {
	Server string // which has it, as configured
	in     *held
}

// held is the inner part of a hold, which the goroutine that reads its connection knows.
type held struct {
	c      *Client
	l      *link
	target string
	since  time.Time
	shared bool
	back   func(l *link, ok bool) string // gives it back, and returns the first answer that is not as it should be

	mu         sync.Mutex
	over, gone bool
	ends       []end // of contexts
	most       int   // at so many those that have ended go
}

// An end is what ends a context.
type end struct {
	ctx    context.Context
	cancel func(error)
}

// hold makes one of a connection; one that is done holds nothing, and gives the connection back.
func (c *Client) hold(l *link, target string, back func(*link, bool) string) *Hold {
	h := &Hold{l.at.text, &held{c: c, l: l, target: target, since: time.Now(), back: back, over: l.done}}
	if l.done {
		c.give(l)
		return h
	}
	l.rest(h.in)
	runtime.SetFinalizer(h, func(h *Hold) { h.in.forget() })
	return h
}

// forget closes the connection of a hold that was collected. There is no event: the collector's goroutine must not wait.
func (d *held) forget() {
	d.l.close()
	d.cancel(context.Canceled)
}

// cancel ends the contexts.
func (d *held) cancel(cause error) {
	d.mu.Lock()
	ends := d.ends
	d.over, d.ends = true, nil
	d.mu.Unlock()
	for _, one := range ends {
		one.cancel(cause)
	}
}

// lose is called once the connection has ended; err says more.
func (d *held) lose(err error) {
	d.mu.Lock()
	was := d.gone
	d.gone = true
	ends := d.ends
	d.ends = nil
	d.mu.Unlock()
	if was {
		return
	}
	for _, one := range ends { // before the hook, which may be slow
		one.cancel(ErrLost)
	}
	d.c.drop(d.l)
	d.c.tell("lost", d.l.at.text, d.target, time.Time{}, "", err)
}

// Err returns nil, or an *Error of ErrLost once it is not held any more though it was not released.
func (h *Hold) Err() error {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	if !h.in.gone {
		return nil
	}
	return lost("").place(h.Server, h.in.target)
}

func lost(answer string) *Error {
	e := &Error{Kind: ErrLost, Message: "the connection of the hold has ended"}
	if answer != "" {
		e.Message, e.Answer = "the server had taken it away", quote(answer)
	}
	return e
}

// Context returns a context that ends with its parent, and when the hold is lost, or released. Of a loss context.Cause,
// which Go has from 1.20, is ErrLost.
func (h *Hold) Context(parent context.Context) context.Context {
	ctx, cancel := withCause(parent)
	h.in.mu.Lock()
	over, gone := h.in.over, h.in.gone
	if !over && !gone {
		h.in.add(end{ctx, cancel})
	}
	h.in.mu.Unlock()
	if gone {
		cancel(ErrLost)
	} else if over {
		cancel(context.Canceled)
	}
	return ctx
}

// add notes, with mu held, what ends a context.
func (d *held) add(one end) {
	if len(d.ends) >= d.most {
		var live []end
		for _, one := range d.ends {
			if one.ctx.Err() == nil {
				live = append(live, one)
			}
		}
		d.ends, d.most = live, 2*len(live)+8
	}
	d.ends = append(d.ends, one)
}

// Release gives it back; a second call does nothing. What ends a context does not cut it off: it has io_timeout. Errors:
// ErrLost, ErrUnanswered, ErrMalformed.
func (h *Hold) Release() error { return h.end(true) }

// Fail is Release after work that failed: no waiter for a shared lock is told that it was done, and members are
// returned as failed.
func (h *Hold) Fail() error { return h.end(false) }

func (h *Hold) end(ok bool) error {
	d := h.in
	d.mu.Lock()
	over, gone := d.over, d.gone
	d.over = true
	d.mu.Unlock()
	if over {
		return nil
	}
	runtime.SetFinalizer(h, nil)
	c, l, keep := d.c, d.l, ok || !d.shared
	var err *Error
	if intact := l.wake(); gone || !intact {
		err = lost("")
	} else if keep {
		l.start(context.Background(), 0)
		if answer := d.back(l, ok); l.err != nil {
			err = failure(l.err, l.socket.sent.Load())
			if err.ended || err.is(ErrUnreachable) {
				reason := err.Reason
				err = lost("")
				err.Reason = reason
			}
		} else if answer != "" {
			err = lost(answer)
		}
	}
	if err == nil {
		if keep {
			c.give(l)
		} else {
			c.drop(l)
		}
		d.cancel(context.Canceled)
		c.tell("held", h.Server, d.target, d.since, "released", nil)
		return nil
	}
	err.place(h.Server, d.target)
	if c.drop(l); err.is(ErrLost) {
		d.lose(err)
	}
	d.cancel(context.Canceled)
	c.tell("held", h.Server, d.target, d.since, "", err)
	return err
}
