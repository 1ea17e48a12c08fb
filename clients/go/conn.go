package counterd

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	piece = 64 << 10             // bytes that have io_timeout to be sent or to come
	small = 4 << 10              // bytes of a request that no connection blocks on
	brief = 5 * time.Millisecond // a caller waits for so long by itself; then a goroutine watches for it
)

var (
	errLate = errors.New("timeout") // a deadline of ours has passed
	past    = time.Unix(1, 0)
)

// A socket knows whether the system has taken a byte.
type socket struct {
	net.Conn
	sent atomic.Bool
}

func (s *socket) Write(data []byte) (int, error) {
	n, err := s.Conn.Write(data)
	if n > 0 {
		s.sent.Store(true)
	}
	return n, err
}

// A link is one connection. Its owner reads and writes; while it rests, a goroutine reads it, whose news are that it ends.
type link struct {
	at               *point
	socket           *socket
	conn             net.Conn // the socket, or TLS above it
	buf, out         []byte   // what has come, from pos on; room for requests
	pos              int
	due              time.Time // the deadline of reads that is set
	partial, checked bool      // a request is not sent to its end; the server knows our verbs for jobs
	since            time.Time // idle since then
	turn             sync.Mutex
	ended            chan struct{} // it ended while it rested

	mu      sync.Mutex
	open    bool
	resting bool          // what comes ends it
	reader  chan struct{} // the end of the goroutine that reads; nil: there is none
	timer   *time.Timer   // starts it
	armed   bool
	onEnd   func()
	once    sync.Once // closes ended
}

// dial connects to a server: each of its addresses gets its share of the time.
func (c *Client) dial(ctx context.Context, at *point, within time.Duration) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	due, _ := ctx.Deadline()
	hosts := []string{at.host}
	if at.network == "tcp" {
		found, err := net.DefaultResolver.LookupIPAddr(ctx, at.host)
		if err != nil {
			return nil, err
		}
		hosts = hosts[:0]
		for _, one := range found {
			hosts = append(hosts, one.String())
		}
	}
	dialer := net.Dialer{KeepAlive: -1, Control: tune}
	err := error(&net.DNSError{Err: "the name has no address", Name: at.host})
	for i, host := range hosts {
		share, cancel := context.WithTimeout(ctx, time.Until(due)/time.Duration(len(hosts)-i))
		var raw net.Conn
		raw, err = dialer.DialContext(share, at.network, at.address(host))
		cancel()
		if err != nil {
			continue
		}
		l := &link{at: at, socket: &socket{Conn: raw}, open: true, ended: make(chan struct{})}
		l.conn = l.socket
		if config := c.options.config; config != nil {
			if config.ServerName == "" {
				config = config.Clone()
				config.ServerName = at.host
			}
			secure := tls.Client(l.socket, config)
			if err = secure.HandshakeContext(ctx); err != nil {
				raw.Close()
				continue
			}
			l.conn = secure
		}
		return l, nil
	}
	return nil, err
}

func isLate(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// close closes it without waiting: TLS says no goodbye. It returns whether it was open.
func (l *link) close() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.open
	l.open, l.resting = false, false
	l.socket.Close()
	return was
}

// fresh says that the connection is open, and that nothing has come. It looks above TLS, whose tickets are no data.
func (l *link) fresh() bool {
	if l.pos < len(l.buf) {
		return false
	}
	quiet := isQuiet(l.socket.Conn.(syscall.Conn))
	if quiet && l.conn == l.socket {
		return true
	}
	if l.due = past; !quiet {
		l.due = time.Now().Add(time.Millisecond)
	}
	l.conn.SetReadDeadline(l.due)
	var b [1]byte
	n, err := l.conn.Read(b[:])
	return n == 0 && isLate(err)
}

// rest leaves the connection alone: after a moment a goroutine reads it, and calls onEnd when something comes.
func (l *link) rest(onEnd func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onEnd = onEnd
	if l.resting = l.open; l.armed || !l.open {
		return
	}
	l.armed = true
	if l.timer == nil {
		l.timer = time.AfterFunc(brief, l.watch)
	} else {
		l.timer.Reset(brief)
	}
}

func (l *link) watch() {
	l.mu.Lock()
	l.armed = false
	if !l.resting || l.reader != nil {
		l.mu.Unlock()
		return
	}
	gone := l.listen()
	l.mu.Unlock()
	l.read(gone)
}

// listen is called with mu held; read has to follow.
func (l *link) listen() chan struct{} {
	l.conn.SetReadDeadline(time.Time{})
	l.reader = make(chan struct{})
	return l.reader
}

// read waits for what comes: the end of a connection that rests, or an answer to what is not sent to its end yet.
func (l *link) read(gone chan struct{}) {
	var b [512]byte
	n, err := l.conn.Read(b[:])
	l.mu.Lock()
	l.buf = append(l.buf, b[:n]...)
	l.reader = nil
	var tell func()
	if n > 0 || !isLate(err) {
		if l.resting {
			tell = l.onEnd
			l.once.Do(func() { close(l.ended) })
			l.resting = false
		} else {
			l.conn.SetWriteDeadline(past)
		}
	}
	l.mu.Unlock()
	close(gone)
	if tell != nil {
		tell()
	}
}

// wake ends a rest: the caller reads again. It returns whether it may be used.
func (l *link) wake() bool {
	l.mu.Lock()
	l.resting = false
	gone, open := l.reader, l.open
	l.mu.Unlock()
	if gone != nil {
		l.conn.SetReadDeadline(past)
		<-gone
	}
	l.due = past
	return open && l.fresh()
}

// A talk is a request and its answer on a connection. Its first error ends it: later steps do nothing.
type talk struct {
	c          *Client
	l          *link
	ctx        context.Context
	told       time.Duration // what is left of the timeout
	tried      bool          // an earlier attempt may have been heard
	io         time.Duration
	sentAt     time.Time
	err        error
	stop, over chan struct{} // of the goroutine that watches ctx
}

func (t *talk) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// attend starts what wakes the caller when ctx is done.
func (t *talk) attend() {
	if t.stop != nil || t.ctx.Done() == nil {
		return
	}
	t.stop, t.over = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(t.over)
		select {
		case <-t.ctx.Done():
			t.l.conn.SetDeadline(past)
		case <-t.stop:
		}
	}()
}

// end ends the goroutine of attend.
func (t *talk) end() {
	if t.stop != nil {
		close(t.stop)
		<-t.over
		t.stop, t.l.due = nil, past
	}
}

// write sends a request: io_timeout for each 64 KiB. Of a long one an answer that comes meanwhile ends the sending.
func (t *talk) write(data []byte) {
	l := t.l
	var gone chan struct{}
	if t.err == nil && len(data) > small {
		t.attend()
		l.mu.Lock()
		gone = l.listen()
		l.mu.Unlock()
		go l.read(gone)
	}
	for len(data) > 0 && t.err == nil {
		l.due = time.Now().Add(t.c.options.io)
		next := data
		if gone == nil {
			l.conn.SetDeadline(l.due)
		} else {
			if len(data) > piece {
				next = data[:piece]
			}
			l.conn.SetWriteDeadline(l.due)
			if l.isHeard() || t.ctx.Err() != nil {
				break
			}
		}
		n, err := l.conn.Write(next)
		data = data[n:]
		if err != nil && !(gone != nil && l.isHeard()) {
			if isLate(err) {
				err = errLate
			} else if l.socket.sent.Load() {
				break // the server may have said why
			}
			t.fail(err)
		}
	}
	if gone != nil {
		l.conn.SetReadDeadline(past)
		<-gone
		l.due = past
	}
	if err := t.ctx.Err(); err != nil && t.stop != nil {
		t.err = err
	}
	l.partial = l.partial || len(data) > 0
	t.sentAt = time.Now()
}

// isHeard says that something has come while a long request was sent.
func (l *link) isHeard() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reader == nil
}

// read reads into b what comes by the deadline.
func (t *talk) read(b []byte, deadline time.Time) int {
	for t.err == nil {
		due := deadline
		if t.stop == nil && t.ctx.Done() != nil {
			if soon := time.Now().Add(brief); soon.Before(due) {
				due = soon
			}
		}
		if due != t.l.due {
			t.l.due = due
			t.l.conn.SetReadDeadline(due)
		}
		if t.stop != nil && t.ctx.Err() != nil {
			t.fail(t.ctx.Err())
			return 0
		}
		n, err := t.l.conn.Read(b)
		switch {
		case n > 0:
			return n
		case err != nil && !isLate(err):
			t.fail(err)
		case err != nil && t.ctx.Err() != nil:
			t.fail(t.ctx.Err())
		case err != nil && due == deadline:
			t.fail(errLate)
		case err != nil:
			t.attend()
		}
	}
	return 0
}

// line returns a line without its end: its first byte by begin, the rest io_timeout later. It is valid until the next read.
func (t *talk) line(begin time.Time) []byte {
	l, limit, end := t.l, 16384, []byte("\n")
	if l.at.proto == "jobs" {
		limit, end = 1024, []byte("\r\n")
	}
	at, deadline := -1, begin
	for t.err == nil {
		came := l.buf[l.pos:]
		if at = bytes.Index(came, end); at >= 0 || len(came) > limit+len(end) {
			if at < 0 || at > limit {
				t.fail(malformed(string(came[:min(len(came), 200)]), "the server's line is too long"))
				break
			}
			l.pos += at + len(end)
			return came[:at]
		}
		if len(came) > 0 && deadline == begin {
			deadline = time.Now().Add(t.io)
		}
		l.buf, l.pos = append(l.buf[:0], came...), 0
		if len(l.buf) == cap(l.buf) {
			l.buf = append(make([]byte, 0, max(512, 2*cap(l.buf))), l.buf...)
		}
		n := t.read(l.buf[len(l.buf):cap(l.buf)], deadline)
		l.buf = l.buf[:len(l.buf)+n]
	}
	return nil
}

// exactly returns so many bytes; io_timeout begins anew with each 64 KiB. What has come is all that is allocated, and as much again.
func (t *talk) exactly(size int) []byte {
	l := t.l
	have := min(len(l.buf)-l.pos, size)
	data := append([]byte(nil), l.buf[l.pos:l.pos+have]...)
	l.pos += have
	for mark, deadline := 0, (time.Time{}); t.err == nil && len(data) < size; {
		if len(data) >= mark {
			mark, deadline = len(data)+piece, time.Now().Add(t.io)
		}
		if len(data) == cap(data) {
			data = append(make([]byte, 0, min(size, max(512, 2*len(data)))), data...)
		}
		n := t.read(data[len(data):min(cap(data), size)], deadline)
		data = data[:len(data)+n]
	}
	return data
}

func min(a, b int) int {
	if a < b {
		return a
	}
	return b
}

func max(a, b int) int {
	if a > b {
		return a
	}
	return b
}

// failure returns the error of a connection as one of ours; nil: it is that of ctx.
func failure(err error, sent bool) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if err == context.Canceled || err == context.DeadlineExceeded {
		return nil
	}
	e = &Error{Kind: ErrUnreachable, Message: "the connection ended before an answer came", Sent: sent, ended: err != errLate}
	if err == errLate {
		e.Message = "no answer came in time"
	} else if err != io.EOF {
		e.Reason = quote(err.Error())
	}
	if sent {
		e.Kind = ErrUnanswered
	}
	return e
}
