package counterd

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A kind is one class of errors; up is the class that it belongs to, or nil.
type kind struct {
	name string
	up   error
}

func (k *kind) Error() string { return k.name }
func (k *kind) Unwrap() error { return k.up }

// The kinds of errors, for errors.Is. Their text is the name that they have in the libraries of all languages: "Busy".
var (
	ErrUsage   error = &kind{"Usage", nil}   // the call is wrong, or the client is closed
	ErrRefused error = &kind{"Refused", nil} // the server said no, and nothing has changed
	ErrFailed  error = &kind{"Failed", nil}  // no answer that can be believed
	ErrLost    error = &kind{"Lost", nil}    // the hold or the job is not the caller's any more

	// These are ErrRefused, too.
	ErrBusy       error = &kind{"Busy", ErrRefused}       // not free within the timeout
	ErrQueueFull  error = &kind{"QueueFull", ErrRefused}  // too many wait, or the tube has as many jobs as it may have
	ErrNotFound   error = &kind{"NotFound", ErrRefused}   // there is no such pool, member, tube or job
	ErrWrong      error = &kind{"Wrong", ErrRefused}      // the pool is of another kind, or a value is wrong
	ErrDenied     error = &kind{"Denied", ErrRefused}     // the server does not let this client do so
	ErrNoMemory   error = &kind{"NoMemory", ErrRefused}   // the server has no memory for it
	ErrReadOnly   error = &kind{"ReadOnly", ErrRefused}   // the tube is read-only; the reason is in Answer
	ErrDraining   error = &kind{"Draining", ErrRefused}   // the server shuts down, or takes no new work
	ErrTooBig     error = &kind{"TooBig", ErrRefused}     // the body is larger than the server takes
	ErrTooMany    error = &kind{"TooMany", ErrRefused}    // this connection would hold more than the server allows
	ErrEngineAway error = &kind{"EngineAway", ErrRefused} // servers share this limit, and what they share it by is away or full

	// These are ErrFailed, too.
	ErrUnreachable error = &kind{"Unreachable", ErrFailed} // no server could be reached; nothing was sent
	ErrUnanswered  error = &kind{"Unanswered", ErrFailed}  // a request was sent, and its answer did not come
	ErrMalformed   error = &kind{"Malformed", ErrFailed}   // what the protocol does not have, or more than it may
	ErrUnsupported error = &kind{"Unsupported", ErrFailed} // the server does not know the request
)

// An Error is what calls return, but for ctx.Err() of one that ctx has ended.
type Error struct {
	Kind    error  // one of the kinds, ErrBusy
	Message string // what happened
	Server  string // as configured
	Target  string // the name, pool, tube or job
	Answer  string // the first line that the server sent; controls are escaped, and it ends after 200 bytes
	Reason  string // what the system, or the check of a certificate, says
	Sent    bool   // the server may have acted
	ended   bool   // the connection came to its end, rather than to a deadline
}

// Error returns all fields that are set, in one line.
func (e *Error) Error() string {
	text := "counterd: " + e.Kind.Error() + ": " + e.Message
	for _, part := range [][2]string{{"target", e.Target}, {"server", e.Server}, {"answer", e.Answer}, {"reason", e.Reason}} {
		if part[1] != "" {
			text += "; " + part[0] + ": " + part[1]
		}
	}
	return text
}

// Unwrap returns the kind, so that errors.Is finds it.
func (e *Error) Unwrap() error { return e.Kind }

func (e *Error) is(kind error) bool { return errors.Is(e.Kind, kind) }

// place says in the error where it happened.
func (e *Error) place(server, target string) *Error {
	if e.Server == "" {
		e.Server = server
	}
	if e.Target == "" {
		e.Target = quote(target)
	}
	return e
}

func usage(target, format string, args ...any) *Error {
	return &Error{Kind: ErrUsage, Message: fmt.Sprintf(format, args...), Target: quote(target)}
}

func malformed(answer, what string) *Error {
	return &Error{Kind: ErrMalformed, Message: what, Answer: quote(answer), Sent: true}
}

// quote returns the text for people: controls and what is not UTF-8 escaped, 200 bytes at most.
func quote(text string) string {
	if len(text) > 200 {
		text = text[:200]
	}
	var b strings.Builder
	for i, size := 0, 0; i < len(text); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(text[i:])
		shown := text[i : i+size]
		if r == utf8.RuneError && size == 1 {
			shown = fmt.Sprintf(`\x%02x`, text[i])
		} else if !unicode.IsPrint(r) {
			shown = strings.Trim(fmt.Sprintf("%+q", r), "'")
			if r < 0x100 && !strings.ContainsRune("\t\r\n", r) {
				shown = fmt.Sprintf(`\x%02x`, r)
			}
		}
		if b.Len()+len(shown) > 200 {
			break
		}
		b.WriteString(shown)
	}
	return b.String()
}
