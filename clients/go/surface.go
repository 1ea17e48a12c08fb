package counterd

import (
	"context"
	"time"
)

// Kinds of errors: errors.Is(err, ErrBusy). Kind.Error() is the name in the libraries of all languages, "Busy".
// All kinds from ErrBusy to ErrEngineAway are ErrRefused, too; ErrUnreachable to ErrUnsupported are ErrFailed.
var (
	ErrUsage, ErrRefused, ErrFailed, ErrLost                                                                  error
	ErrBusy, ErrQueueFull, ErrNotFound, ErrWrong, ErrDenied, ErrNoMemory, ErrReadOnly, ErrDraining, ErrTooBig error
	ErrTooMany, ErrEngineAway                                                                                 error
	ErrUnreachable, ErrUnanswered, ErrMalformed, ErrUnsupported                                               error
)

// An Error is what all calls return, but for ctx.Err() of a cancelled one.
type Error struct {
	Kind                                    error // one of the kinds above
	Message, Server, Target, Answer, Reason string
	Sent                                    bool
}

func (e *Error) Error() string { panic("soon") }
func (e *Error) Unwrap() error { return e.Kind }

// An Event is what OnEvent is called with. Err is nil, an *Error, or another error of a worker's backoff.
type Event struct {
	Kind, Server, Name string
	Took               time.Duration
	Result             string
	Err                error
}

// Options of a client; zero: that of the URL, or the default. They win over the URL.
type Options struct {
	OnEvent                                       func(Event)
	Text, Binary, Jobs                            string // a port, unix:PATH; Jobs also HOST:PORT
	TLS                                           bool
	TLSCA, TLSCert, TLSKey, TLSName               string
	ConnectTimeout, IOTimeout, DownTime, IdleTime time.Duration
	Idle                                          int   // negative: none
	MaxBody                                       int64 // bytes
}

type Client struct{}

// Open with an empty url: $COUNTER_URL, else counter://127.0.0.1. o may be nil.
func Open(url string, o *Options) (*Client, error) { panic("soon") }
func (c *Client) Close() error                     { panic("soon") }

type LockOptions struct {
	Workers, Queue int           // 0: 1, Workers+100
	Timeout        time.Duration // 0: 10 s
	NoWait         bool
	Shared         bool
}

// A Hold is embedded in Lock, Units and Member.
type Hold struct{ Server string }

func (h *Hold) Release() error                                 { panic("soon") }
func (h *Hold) Fail() error                                    { panic("soon") } // release, not ok
func (h *Hold) Context(parent context.Context) context.Context { panic("soon") } // done when it is lost or released
func (h *Hold) Err() error                                     { panic("soon") } // nil, or ErrLost's *Error

type Lock struct {
	*Hold
	Name string
	Done bool
}
type Units struct {
	*Hold
	Name  string
	Count int
}

// Taken is one member. Value "": none.
type Taken struct {
	Name, Value string
	Attrs       map[string]string
	Fence       int64
}
type Member struct {
	*Hold
	Pool  string
	Taken // the first
	All   []Taken
}
type MemberOptions struct {
	Timeout     time.Duration
	NoWait      bool
	Count       int
	Name        string
	Attrs       map[string]string
	Purpose, By string
}

func (c *Client) Lock(ctx context.Context, name string, o LockOptions) (*Lock, error) { panic("soon") }
func (c *Client) Units(ctx context.Context, name string, count, limit int) (*Units, error) {
	panic("soon")
}
func (c *Client) Usage(ctx context.Context, name string) (int, error) { panic("soon") }
func (c *Client) Member(ctx context.Context, target string, o MemberOptions) (*Member, error) {
	panic("soon")
}

// Root: jobs with this signature and an older time are superseded.
type Root struct {
	Signature string
	Time      time.Time
}
type PutOptions struct {
	Priority   *uint32       // nil: 1024
	Delay, TTR time.Duration // rounded up to seconds; TTR 0: 60 s
	Key        string
	At         time.Time
	Root       *Root
	Tries      int
}
type NewJob struct {
	Body []byte
	PutOptions
}
type Put struct {
	ID        int64
	Duplicate bool
}

func (c *Client) Put(ctx context.Context, tube string, body []byte, o PutOptions) (Put, error) {
	panic("soon")
}
func (c *Client) PutMany(ctx context.Context, tube string, jobs []NewJob) ([]Put, error) {
	panic("soon")
}

type ClaimOptions struct {
	Count   int           // 0: 1
	Timeout time.Duration // 0: 10 s
	NoWait  bool
}
type Job struct {
	ID, Token int64
	Tube      string
	Tries     int
	Body      []byte
	Server    string
}

func (c *Client) Claim(ctx context.Context, tubes []string, o ClaimOptions) ([]*Job, error) {
	panic("soon")
}
func (j *Job) Ack() error                                        { panic("soon") }
func (j *Job) Nack(delay time.Duration) (buried bool, err error) { panic("soon") }
func (j *Job) Bury() error                                       { panic("soon") }
func (j *Job) Renew() error                                      { panic("soon") }
func (j *Job) Lost() bool                                        { panic("soon") }

// Tube: numbers are int64, the rest strings.
func (c *Client) Tube(ctx context.Context, name string, settings map[string]string) (map[string]any, error) {
	panic("soon")
}

type ReadyOptions struct {
	After   string
	Limit   int           // 0: 1000
	Timeout time.Duration // 0: it does not wait
}
type TubeReady struct {
	Tube string
	Jobs int64
}

func (c *Client) Ready(ctx context.Context, pattern string, o ReadyOptions) ([]TubeReady, error) {
	panic("soon")
}

type JobView struct {
	ID    int64
	State string
	Tries int
	Body  []byte
}

// ListJobs calls each with the jobs; an error of each ends it, and is returned.
func (c *Client) ListJobs(ctx context.Context, tube, state string, each func(JobView) error) error {
	panic("soon")
}
func (c *Client) Clear(ctx context.Context, tube, state string) (int64, error) { panic("soon") }
func (c *Client) Delete(ctx context.Context, id int64) error                   { panic("soon") }
func (c *Client) Kick(ctx context.Context, id int64) error                     { panic("soon") }

// ServersFor returns the servers in the order in which they are asked for the name.
func ServersFor(name string, servers []string) []string { panic("soon") }

// ErrBury, returned by a handler: the job is buried.
var ErrBury error

// Retry, returned by a handler as *Retry: the job comes back after Delay.
type Retry struct{ Delay time.Duration }

func (r *Retry) Error() string { panic("soon") }

type Worker struct {
	Client      *Client
	Tubes       []string
	Handler     func(context.Context, *Job) error
	Concurrency int                           // 0: 1
	Backoff     func(tries int) time.Duration // nil: 1 s, doubled, up to an hour
	Tries       int                           // 0: any number
	Grace       time.Duration                 // 0: 30 s
	NoSignals   bool                          // TERM and INT are not touched
	OnEvent     func(Event)                   // nil: the client's
}

// Run runs until ctx is done, Stop, TERM or INT. It returns nil, *CutOff, or what no claim can do without.
func (w *Worker) Run(ctx context.Context) error { panic("soon") }
func (w *Worker) Stop()                         { panic("soon") }

// CutOff is returned by Run when handlers did not end in time: so many of their jobs were given back.
type CutOff struct{ Jobs int }

func (c *CutOff) Error() string { panic("soon") }
