package counterd

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"
)

const (
	maxOK     = 1 << 20 // bytes of the body of an OK
	maxBinary = 65545
	opaque    = "ctrd"
	nameBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()"
)

// Opcodes of the binary protocol.
const (
	opGet = iota + 1
	opAcquire
	opRelease
)

// Answers with their least numbers of words.
type answers map[string]int

var (
	locked   = answers{"LOCKED": 1}
	shared   = answers{"LOCKED": 1, "DONE": 1}
	okAnswer = answers{"OK": 2}
	found    = answers{"FOUND": 5, "UNREADABLE": 4}
	taken    = answers{"TAKEN": 5}
	reserved = answers{"RESERVED": 6}
	claimed  = answers{"CLAIMED": 2, "TIMED_OUT": 1}
	inserted = answers{"INSERTED": 2, "DUPLICATE": 2}
	released = answers{"RELEASED": 1, "NOT_LOCKED": 1}
	returned = answers{"RETURNED": 1, "GONE": 1, "NOT_TAKEN": 1}
	acked    = answers{"DELETED": 1, "NOT_FOUND": 1}
	nacked   = answers{"RELEASED": 1, "BURIED": 1, "NOT_FOUND": 1}
	buried   = answers{"BURIED": 1, "NOT_FOUND": 1}
	renewed  = answers{"TOUCHED": 1, "NOT_FOUND": 1}
	stats    = answers{"OK": 2, "NOT_FOUND": 1}
)

const putRefusals = "JOB_TOO_BIG DRAINING READ_ONLY TUBE_FULL"

// refused are the refusals of some verbs, anyVerb those of all.
var refused = map[string]error{
	"TIMEOUT": ErrBusy, "QUEUE_FULL": ErrQueueFull, "TUBE_FULL": ErrQueueFull, "LOCK_HELD": ErrTooMany, "NOT_FOUND": ErrNotFound,
	"READ_ONLY": ErrReadOnly, "JOB_TOO_BIG": ErrTooBig, "DRAINING": ErrDraining,
}

var anyVerb = map[string]error{
	"ERROR BAD_SYNTAX": ErrUsage, "ERROR LINE_TOO_LONG": ErrUsage, "BAD_FORMAT": ErrUsage,
	"ERROR BAD_COMMAND": ErrUnsupported, "UNKNOWN_COMMAND": ErrUnsupported, "ERROR SHUTTING_DOWN": ErrDraining,
	"ERROR DENIED": ErrDenied, "ERROR NO_POOL": ErrNotFound, "ERROR NO_MEMBER": ErrNotFound, "ERROR WRONG_KIND": ErrWrong,
	"ERROR BAD_VALUE": ErrWrong, "ERROR TOO_MANY": ErrTooMany, "ERROR OUT_OF_MEMORY": ErrNoMemory, "OUT_OF_MEMORY": ErrNoMemory,
	"ERROR ENGINE_AWAY": ErrEngineAway, "ERROR ENGINE_FULL": ErrEngineAway, "ERROR INTERNAL_ERROR": ErrUnanswered,
	"INTERNAL_ERROR": ErrUnanswered,
}

var statuses = map[byte]error{0x04: ErrUsage, 0x21: ErrBusy, 0x81: ErrUnsupported, 0x82: ErrNoMemory}

// A form checks what a caller gives, and notes the first that is wrong.
type form struct {
	target string
	err    error
}

func (f *form) need(ok bool, format string, args ...any) {
	if !ok && f.err == nil {
		f.err = usage(f.target, format, args...)
	}
}

// name returns a name of a lock or of units, as it is sent.
func (f *form) name(text string) string {
	sent := strings.ReplaceAll(text, " ", "%20")
	f.need(sent != "" && len(sent) <= 4096 && !strings.ContainsAny(sent, "\r\n\x00"), "a name has 1 to 4,096 bytes without CR, LF, NUL")
	return sent
}

func (f *form) tube(text string) string {
	f.need(isWord(text, 200, nameBytes) && text[0] != '-', "a tube has 1 to 200 bytes of A-Za-z0-9-+/;.$_(), the first no '-'")
	return text
}

// count returns a number within its bounds; 0 stands for or.
func (f *form) count(value int, what string, or, top int64) int64 {
	n := int64(value)
	if n == 0 {
		n = or
	}
	if n < 0 || n > top { // asked here, since what need is given costs
		f.need(false, "%s: 1 to %d is allowed, not %d", what, top, n)
	}
	return n
}

// timeout checks a time to wait; 0 stands for or.
func (f *form) timeout(value, or time.Duration, noWait bool) time.Duration {
	if value < 0 || value > longest {
		f.need(false, "timeout: up to 1,000,000 s is allowed, not %v", value)
	}
	if noWait {
		return 0
	} else if value == 0 {
		return or
	}
	return value
}

// whole returns seconds, rounded up.
func (f *form) whole(value time.Duration, what string) int64 {
	n := int64(value / time.Second)
	if value%time.Second > 0 {
		n++
	}
	if value < 0 || n > math.MaxUint32 {
		f.need(false, "%s: 0 to 4,294,967,295 s is allowed, not %v", what, value)
	}
	return n
}

func (f *form) signature(text, what string) string {
	f.need(isWord(text, 64, nameBytes), "%s: 1 to 64 of A-Za-z0-9-+/;.$_(); for other text pass a hash", what)
	return text
}

func (f *form) unix(at time.Time) string {
	ms := at.Round(time.Millisecond).UnixMilli()
	f.need(ms >= 0 && ms < 1e15, "%v is no time in unix seconds", at)
	if ms%1000 == 0 {
		return strconv.FormatInt(ms/1000, 10)
	}
	return fmt.Sprintf("%d.%03d", ms/1000, ms%1000)
}

// isWord says that a text has 1 to top bytes, and these only.
func isWord(text string, top int, bytes string) bool {
	return text != "" && len(text) <= top && strings.Trim(text, bytes) == ""
}

func contains(list []string, text string) bool {
	for _, one := range list {
		if one == text {
			return true
		}
	}
	return false
}

// isText says that a text has low to top bytes, and none of these.
func isText(text string, low, top int, without string) bool {
	return len(text) >= low && len(text) <= top && !strings.ContainsAny(text, without+" \r\n\x00")
}

// wait appends a time to wait as the server is told: cut to milliseconds.
func wait(line []byte, told time.Duration) []byte {
	ms := told.Milliseconds()
	line = strconv.AppendInt(line, ms/1000, 10)
	point := len(line)
	line = strconv.AppendInt(line, 1000+ms%1000, 10)
	line[point] = '.'
	return line
}

// take returns the pools of a TAKE, and what is before and behind the time in its line.
func (f *form) take(o MemberOptions) (pools []string, head, tail string) {
	pools = strings.Split(f.target, ",")
	group := strings.HasPrefix(f.target, "@")
	if group {
		pools = []string{f.target[1:]}
	}
	seen := map[string]bool{}
	for _, pool := range pools {
		f.need(isText(pool, 1, 255, ",") && !strings.ContainsRune("@*", rune(pool[0])) && !seen[pool] && len(seen) < 16,
			"a target is up to 16 pools with commas between, or @GROUP")
		seen[pool] = true
	}
	if count := f.count(o.Count, "count", 1, 64); count != 1 {
		tail = fmt.Sprintf(" count=%d", count)
	}
	if o.Name != "" {
		f.need(isText(o.Name, 1, 255, "") && !group && len(pools) == 1, "a member has 1 to 255 bytes without space, and one pool")
		tail += " member=" + o.Name
	}
	for _, key := range sorted(o.Attrs) {
		f.need(isWord(key, 32, "abcdefghijklmnopqrstuvwxyz0123456789_") && key[0] >= 'a' && key != "value" && key != "state" && key != "note" &&
			isText(o.Attrs[key], 0, 128, "") && len(o.Attrs) <= 8, "attrs has up to 8 words; %q is none, or its value", key)
		tail += " with=" + key + "=" + o.Attrs[key]
	}
	switch o.Purpose {
	case "", "use":
	case "clean", "check":
		tail += " for=" + o.Purpose
	default:
		f.need(false, "purpose: use, clean, check are allowed, not %q", o.Purpose)
	}
	if o.By != "" {
		f.need(isText(o.By, 1, 128, ""), "by: a word of 1 to 128 bytes")
		tail += " by=" + o.By
	}
	return pools, "TAKE " + f.target + " ", tail + "\n"
}

// record appends a job as put-into and put-batch send it, from its priority on.
func (f *form) record(to []byte, body []byte, o *PutOptions) []byte {
	priority, ttr := uint32(1024), o.TTR
	if o.Priority != nil {
		priority = *o.Priority
	}
	if ttr == 0 {
		ttr = time.Minute
	}
	for i, n := range []int64{int64(priority), f.whole(o.Delay, "delay"), f.whole(ttr, "ttr"), int64(len(body))} {
		if i > 0 {
			to = append(to, ' ')
		}
		to = strconv.AppendInt(to, n, 10)
	}
	if o.Key != "" {
		to = append(to, " key="+f.signature(o.Key, "key")...)
	}
	if !o.At.IsZero() {
		to = append(to, " at="+f.unix(o.At)...)
	}
	if o.Root != nil {
		to = append(to, " root="+f.signature(o.Root.Signature, "root")+":"+f.unix(o.Root.Time)...)
	}
	if o.Tries != 0 {
		to = strconv.AppendInt(append(to, " tries="...), f.count(o.Tries, "tries", 0, math.MaxUint32), 10)
	}
	to = append(append(to, '\r', '\n'), body...)
	return append(to, '\r', '\n')
}

// sorted returns the keys.
func sorted(values map[string]string) (keys []string) {
	for key := range values {
		keys = append(keys, key)
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i] != "read_only" && (keys[j] == "read_only" || keys[i] < keys[j]) })
	return keys
}

// settings returns the settings of a tube as they are sent; read_only comes last.
func (f *form) settings(values map[string]string) (sent string) {
	for _, key := range sorted(values) {
		value := values[key]
		ok := isWord(value, 1024, nameBytes[:62]+"_.-")
		if key == "read_only" {
			ok = len(value) <= 200 && strings.IndexFunc(value, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) < 0
		}
		f.need(ok && isWord(key, 64, "abcdefghijklmnopqrstuvwxyz_") && key[0] != '_', "%s=%q is no setting of a tube", key, value)
		sent += " " + strings.ReplaceAll(key, "_", "-") + "=" + value
	}
	return sent
}

func (f *form) state(text string) string {
	f.need(strings.Contains(" ready delayed reserved buried abandoned all ", " "+text+" "),
		"%q is no state: ready, delayed, reserved, buried, abandoned, all are", text)
	return text
}

// request returns one of the binary protocol.
func request(opcode byte, name string, numbers ...int64) []byte {
	size := 4*len(numbers) + 2 + len(name)
	data := append([]byte{0x90, opcode, 0, 0, 0, 0, 0, 0}, opaque...)
	binary.BigEndian.PutUint32(data[4:], uint32(size))
	for _, n := range numbers {
		data = append(data, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return append(append(data, byte(len(name)>>8), byte(len(name))), name...)
}

// malformed ends the talk: the server sent what its protocol does not have.
func (l *link) malformed(answer string) {
	l.fail(malformed(answer, "the server's answer is outside the protocol"))
}

// number returns a number of an answer, checked.
func (l *link) number(word string, low, top int64) int64 {
	n, err := strconv.ParseUint(word, 10, 63)
	if err != nil || int64(n) < low || int64(n) > top || len(word) > 19 {
		l.fail(malformed(word, "the server sent a number out of its bounds"))
		return 0
	}
	return int64(n)
}

// Words of an answer. One that is missing, after a failure, is empty.
type words []string

func (w words) at(i int) string {
	if i >= 0 && i < len(w) {
		return w[i]
	}
	return ""
}

// words returns those of an answer. Its first is one of good; else this is the error that the line means, if it is one of
// refusals or of those of any verb. "-": the server can't refuse any more.
func (l *link) words(line string, good answers, refusals string) words {
	split := strings.Split(line, " ")
	least, ok := good[split[0]]
	if ok && len(split) >= least && !contains(split[:least], "") {
		return split
	}
	key, cause := split[0], error(nil)
	if key == "ERROR" && len(split) > 1 {
		key += " " + split[1]
	}
	if cause = anyVerb[key]; strings.Contains(" "+refusals+" ", " "+split[0]+" ") {
		cause = refused[split[0]]
	}
	if l.err != nil || ok || refusals == "-" || cause == nil {
		l.malformed(line)
		return nil
	}
	l.fail(&Error{Kind: cause, Message: "the server refused it", Answer: quote(line), Sent: true})
	return nil
}

// answer reads one, and the body of an OK as its last word.
func (l *link) answer(good answers, refusals string) words {
	line := l.line()
	if l.err != nil {
		return nil
	}
	w := l.words(string(line), good, refusals)
	if w.at(0) == "OK" {
		w = append(w, string(l.body(w[1], maxOK)))
	}
	return w
}

// more reads a further line of an answer.
func (l *link) more(good answers, refusals string) words {
	l.begin = time.Now().Add(l.io)
	return l.answer(good, refusals)
}

func (l *link) body(size string, top int) []byte {
	n := int(l.number(size, 0, int64(top)))
	data := l.exactly(n + 2)
	if l.err == nil && !bytes.HasSuffix(data, []byte("\r\n")) {
		l.malformed(string(data[n:]))
	}
	if l.err != nil {
		return nil
	}
	return data[:n:n]
}

// jobs asks in the protocol for jobs. A new connection asks `tube default` first, and before a body waits for the answer: a
// plain beanstalkd would take the body for commands.
func (l *link) jobs(request []byte, good answers, refusals string, wait time.Duration, hasBody bool) words {
	if l.checked {
		l.write(request, wait)
		return l.answer(good, refusals)
	}
	first := []byte("tube default\r\n")
	if !hasBody {
		first = append(first, request...)
	}
	l.write(first, 0)
	if hasBody {
		l.socket.sent.Store(false)
	}
	partial := l.partial
	l.partial = true // a refusal leaves an answer to come
	if l.answer(okAnswer, ""); l.err != nil {
		return nil
	}
	l.checked, l.partial, l.begin = true, partial, time.Now().Add(wait+l.io)
	if hasBody {
		l.write(request, wait)
	}
	return l.answer(good, refusals)
}

// binary asks in the binary protocol. It returns status 0 or a known one, and the body.
func (l *link) binary(request []byte, known string) (status byte, body []byte) {
	l.write(request, 0)
	header := l.exactly(12)
	if l.err != nil {
		return 0, nil
	}
	length := binary.BigEndian.Uint32(header[4:])
	if header[0] != 0x91 || header[1] != request[1] || string(header[8:]) != opaque || length > maxBinary {
		l.malformed(string(header))
		return 0, nil
	}
	status, body = header[2], l.exactly(int(length))
	if l.err == nil && status != 0 && !strings.Contains(known, string(rune(status))) {
		if cause := statuses[status]; cause != nil {
			l.fail(&Error{Kind: cause, Message: "the server refused it", Answer: quote(fmt.Sprintf("0x%02x %s", status, body)), Sent: true})
		} else {
			l.fail(malformed(string(body), fmt.Sprintf("the server answered the unknown status 0x%02x", status)))
		}
	}
	return status, body
}

// entries calls each with what the text of tube, ready and stats-job has: numbers as int64, else text.
func (l *link) entries(body string, each func(key string, value any)) {
	if l.err != nil {
		return
	}
	lines := strings.Split(body, "\n")
	if lines[0] != "---" || lines[len(lines)-1] != "" {
		l.malformed(body)
		return
	}
	for _, line := range lines[1 : len(lines)-1] {
		key, text, ok := strings.Cut(line, ": ")
		if !ok {
			l.malformed(line)
			return
		}
		value := any(strings.Trim(text, `"`))
		if isWord(text, len(text), "0123456789") {
			value = l.number(text, 0, math.MaxInt64)
		}
		each(strings.Trim(key, `"`), value)
	}
}

// entry returns a number of such a text.
func (l *link) entry(body, key string) int64 {
	number, ok := int64(0), false
	l.entries(body, func(k string, value any) {
		if k == key {
			number, ok = value.(int64)
		}
	})
	if !ok {
		l.malformed(body)
	}
	return number
}

func (l *link) put(w words) Put {
	duplicate, low := w.at(0) == "DUPLICATE", int64(1)
	if duplicate {
		low = 0
	}
	return Put{l.number(w.at(1), low, math.MaxInt64), duplicate}
}

// batch returns the list that answers put-batch.
func (l *link) batch(body string, count int) (puts []Put) {
	lines := strings.Split(body, "\n")
	if l.err == nil && (lines[0] != "---" || lines[len(lines)-1] != "" || len(lines) != count+2) {
		l.malformed(body)
	}
	for i := 1; l.err == nil && i <= count; i++ {
		if !strings.HasPrefix(lines[i], "- ") {
			l.malformed(lines[i])
			break
		}
		puts = append(puts, l.put(l.words(lines[i][2:], inserted, "")))
	}
	return puts
}

// member returns that of the words of TAKEN.
func (l *link) member(w words) Taken {
	m := Taken{Name: w.at(2), Value: w.at(4), Attrs: map[string]string{}, Fence: l.number(w.at(3), 0, math.MaxInt64)}
	if m.Value == "-" {
		m.Value = ""
	}
	for i := 5; i < len(w); i++ {
		if key, value, ok := strings.Cut(w[i], "="); ok {
			m.Attrs[key] = value
		}
	}
	return m
}
