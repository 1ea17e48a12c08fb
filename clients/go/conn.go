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
	small = 4 << 10              // bytes of a request that never block
	brief = 5 * time.Millisecond // a caller waits for so long by itself; then a goroutine watches
)

var (
	errLate = errors.New("timeout") // a deadline of ours has passed
	past    = time.Unix(1, 0)
)

// A socket knows whether the system has taken a byte.
type socket struct {
	net.Conn
	sent  atomic.Bool
	raw   syscall.RawConn
	look  func(fd uintptr) // for isQuiet
	quiet bool
	one   [1]byte
}

func (s *socket) Write(data []byte) (int, error) {
	n, err := s.Conn.Write(data)
	if n > 0 {
		s.sent.Store(true)
	}
	return n, err
}

// A link is one connection. Its owner has one conversation at a time on it, whose first error ends it: later steps do
// nothing. While it rests, a goroutine reads it, whose only news are that it ends.
type link struct {
	c                *Client
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

	// Of a conversation.
	ctx        context.Context
	io, told   time.Duration // for a step; what is left of the timeout
	tried      bool          // an earlier attempt may have been heard
	done       bool          // of a shared lock: the work was done by another
	begin      time.Time     // the first byte of the answer comes by then
	err        error
	stop, over chan struct{} // of the goroutine that watches ctx

	mu      sync.Mutex
	open    bool
	resting bool          // what comes ends it
	reader  chan struct{} // the end of the goroutine that reads; nil: there is none
	timer   *time.Timer   // starts it
	armed   bool
	holder  *held     // is told of the end
	once    sync.Once // closes ended
}

// dial connects to a server: each of its addresses gets its share of the time.
func (c *Client) dial(ctx context.Context, at *point, within time.Duration) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	due, _ := ctx.Deadline()
	hosts := []net.IPAddr{{}}
	err := error(nil)
	if at.network == "tcp" {
		if hosts, err = net.DefaultResolver.LookupIPAddr(ctx, at.host); err != nil {
			spare, lack := os.Open(os.DevNull) // the error does not tell of a lack of descriptors
			if lack != nil {
				return nil, lack
			}
			spare.Close()
			return nil, err
		}
	}
	dialer := net.Dialer{KeepAlive: -1, Control: tune}
	for i, host := range hosts {
		address, conn := at.host, net.Conn(nil)
		if at.network == "tcp" {
			address = net.JoinHostPort(host.String(), at.port)
		}
		share, cancel := context.WithTimeout(ctx, time.Until(due)/time.Duration(len(hosts)-i))
		if conn, err = dialer.DialContext(share, at.network, address); err != nil {
			cancel()
			continue
		}
		l := &link{c: c, at: at, socket: &socket{Conn: conn}, open: true, ended: make(chan struct{})}
		l.socket.raw, _ = conn.(syscall.Conn).SyscallConn()
		l.conn = l.socket
		if config := c.options.config; config != nil {
			if config.ServerName == "" {
				config = config.Clone()
				config.ServerName = at.host
			}
			secure := tls.Client(l.socket, config)
			err, l.conn = secure.HandshakeContext(share), secure
		}
		if cancel(); err == nil {
			return l, nil
		}
		conn.Close()
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
	quiet := l.socket.isQuiet()
	if quiet && l.conn == l.socket {
		return true
	}
	if l.due = past; !quiet {
		l.due = time.Now().Add(time.Millisecond)
	}
	l.conn.SetReadDeadline(l.due)
	n, err := l.conn.Read(l.socket.one[:])
	return n == 0 && isLate(err)
}

// rest leaves the connection alone: after a moment a goroutine reads it, and tells the holder, if there is one, when something comes.
func (l *link) rest(holder *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holder = holder
	if l.resting = l.open; l.armed || !l.open {
		return
	}
	if l.armed = true; l.timer == nil {
		l.timer = time.AfterFunc(brief, func() {
			l.mu.Lock()
			if l.armed = false; l.resting && l.reader == nil {
				l.listen()
			}
			l.mu.Unlock()
		})
	} else {
		l.timer.Reset(brief)
	}
}

// listen starts, with mu held, to wait for what comes: the end of a connection that rests, or an answer to what is not sent
// to its end yet.
func (l *link) listen() chan struct{} {
	l.conn.SetReadDeadline(time.Time{})
	gone := make(chan struct{})
	l.reader = gone
	go func() {
		var b [512]byte
		n, err := l.conn.Read(b[:])
		l.mu.Lock()
		l.buf = append(l.buf, b[:n]...)
		var holder *held
		if l.reader = nil; n == 0 && isLate(err) {
		} else if l.resting {
			l.resting, holder = false, l.holder
			l.once.Do(func() { close(l.ended) })
		} else {
			l.conn.SetWriteDeadline(past)
		}
		l.mu.Unlock()
		if close(gone); holder != nil {
			holder.lose(nil)
		}
	}()
	return gone
}

// hush ends the reading of that goroutine.
func (l *link) hush(gone chan struct{}) {
	l.conn.SetReadDeadline(past)
	<-gone
	l.due = past
}

// wake ends a rest: the caller reads again. It returns false when the connection was met at its end.
func (l *link) wake() bool {
	l.mu.Lock()
	l.resting = false
	gone, open := l.reader, l.open
	l.mu.Unlock()
	if gone != nil {
		l.hush(gone)
	}
	select {
	case <-l.ended:
		return false
	default:
		return open && (gone == nil || l.fresh())
	}
}

// start begins a conversation.
func (l *link) start(ctx context.Context, told time.Duration) {
	l.ctx, l.told, l.tried, l.done, l.err, l.io = ctx, told, false, false, nil, l.c.options.io
	l.socket.sent.Store(false)
}

func (l *link) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// attend starts what wakes the caller when ctx is done.
func (l *link) attend() {
	ctx, stop, over := l.ctx, make(chan struct{}), make(chan struct{})
	l.stop, l.over = stop, over
	go func() {
		defer close(over)
		select {
		case <-ctx.Done():
			l.conn.SetDeadline(past)
		case <-stop:
		}
	}()
}

// finish ends the conversation.
func (l *link) finish() error {
	if l.stop != nil {
		close(l.stop)
		<-l.over
		l.stop, l.due = nil, past
	}
	return l.err
}

// write sends a request whose answer begins so long after io_timeout at most. A long one has io_timeout for each 64 KiB, and
// an answer that comes meanwhile ends the sending.
func (l *link) write(data []byte, wait time.Duration) {
	if l.err != nil {
		return
	}
	var gone chan struct{}
	if len(data) > small {
		if l.stop == nil && l.ctx.Done() != nil {
			l.attend()
		}
		l.mu.Lock()
		gone = l.listen()
		l.mu.Unlock()
	}
	for len(data) > 0 && l.err == nil {
		next := data
		if gone == nil {
			l.due = time.Now().Add(wait + l.io)
			l.conn.SetDeadline(l.due)
		} else {
			next = data[:min(len(data), piece)]
			l.conn.SetWriteDeadline(time.Now().Add(l.io))
			if l.isHeard() || l.ctx.Err() != nil {
				break
			}
		}
		n, err := l.conn.Write(next)
		data = data[n:]
		if isLate(err) && !(gone != nil && l.isHeard()) {
			l.fail(errLate)
		} else if err != nil && !isLate(err) {
			if l.socket.sent.Load() {
				break // the server may have said why
			}
			l.fail(err)
		}
	}
	if l.begin = l.due; gone != nil {
		l.hush(gone)
		l.begin = time.Now().Add(wait + l.io)
	}
	if err := l.ctx.Err(); err != nil && l.stop != nil {
		l.err = err
	}
	l.partial = l.partial || len(data) > 0
}

// isHeard says that something has come while a long request was sent.
func (l *link) isHeard() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reader == nil
}

// read reads into b what comes by the deadline.
func (l *link) read(b []byte, deadline time.Time) int {
	for l.err == nil {
		due := deadline
		if l.ctx.Done() != nil && l.stop == nil && time.Until(due) > brief {
			due = time.Now().Add(brief)
		}
		if due != l.due {
			l.due = due
			l.conn.SetReadDeadline(due)
		}
		if l.stop != nil && l.ctx.Err() != nil {
			l.fail(l.ctx.Err())
			break
		}
		n, err := l.conn.Read(b)
		if n > 0 {
			return n
		}
		switch {
		case err == nil:
		case !isLate(err):
			l.fail(err)
		case l.ctx.Err() != nil:
			l.fail(l.ctx.Err())
		case due == deadline:
			l.fail(errLate)
		default:
			l.attend()
		}
	}
	return 0
}

// line returns a line without its end: the rest comes by io_timeout after its first byte. It is valid until the next read.
func (l *link) line() []byte {
	limit, end := 16384, []byte("\n")
	if l.at.proto == "jobs" {
		limit, end = 1024, []byte("\r\n")
	}
	for deadline := l.begin; l.err == nil; {
		came := l.buf[l.pos:]
		if at := bytes.Index(came, end); at > limit || at < 0 && len(came) > limit+len(end) {
			l.fail(malformed(string(came), "the server's line is too long"))
		} else if at >= 0 {
			l.pos += at + len(end)
			return came[:at]
		}
		if len(came) > 0 && deadline == l.begin {
			deadline = time.Now().Add(l.io)
		}
		if l.buf, l.pos = append(l.buf[:0], came...), 0; len(l.buf) == cap(l.buf) {
			l.buf = append(make([]byte, 0, max(512, 2*cap(l.buf))), l.buf...)
		}
		n := l.read(l.buf[len(l.buf):cap(l.buf)], deadline)
		l.buf = l.buf[:len(l.buf)+n]
	}
	return nil
}

// exactly returns so many bytes; io_timeout begins anew with each 64 KiB. Room grows with what has come, by doubling.
func (l *link) exactly(size int) []byte {
	have := min(len(l.buf)-l.pos, size)
	data := append([]byte(nil), l.buf[l.pos:l.pos+have]...)
	l.pos += have
	for mark, deadline := 0, l.begin; l.err == nil && len(data) < size; {
		if len(data) >= mark {
			mark, deadline = len(data)+piece, time.Now().Add(l.io)
		}
		if len(data) == cap(data) {
			data = append(make([]byte, 0, min(size, max(512, 2*len(data)))), data...)
		}
		n := l.read(data[len(data):min(cap(data), size)], deadline)
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

func max(a, b int) int { return -min(-a, -b) }

// failure returns the error of a connection as one of ours; nil: it is that of ctx.
func failure(err error, sent bool) *Error {
	var e *Error
	if errors.As(err, &e) || err == context.Canceled || err == context.DeadlineExceeded {
		return e
	}
	e = &Error{Kind: ErrUnreachable, Message: "the connection ended before an answer came", Sent: sent, ended: err != errLate}
	if !e.ended {
		e.Message = "no answer came in time"
	} else if err != io.EOF {
		e.Reason = quote(err.Error())
	}
	if sent {
		e.Kind = ErrUnanswered
	}
	return e
}
