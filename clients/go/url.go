package counterd

import (
	"crypto/md5"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"math"
	"net/url"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Options of a client, which win over the URL. Zero leaves an option to the URL, or to its default.
type Options struct {
	// OnEvent is called with each event. It may be called by several goroutines at once, should not wait, and must not
	// end what the event is about. What it panics with is dropped.
	OnEvent func(Event)

	Text         string // unix:PATH, of the protocol for locks and members
	Binary, Jobs string // ports of the same hosts, 11215 and 11300; or unix:PATH; Jobs also HOST:PORT

	TLS                       bool          // on all ports
	TLSCA, TLSCert, TLSKey    string        // files; the default of TLSCA is the system's, that of TLSKey is TLSCert
	TLSName                   string        // of the server, instead of its host
	ConnectTimeout, IOTimeout time.Duration // 1 s, 10 s
	DownTime                  time.Duration // 10 s: a server that is down is passed over for so long
	IdleTime                  time.Duration // 60 s: an idle connection is kept for so long
	Idle                      int           // 8 idle connections of each server and protocol are kept; -1: none
	MaxBody                   int64         // 64 MiB of a job are read
}

var defaultPorts = map[string]string{"text": "7531", "binary": "11215", "jobs": "11300"}

const longest = 1_000_000 * time.Second

// options are those of a client, checked.
type options struct {
	servers                            []string
	ports                              map[string]string // as given
	config                             *tls.Config
	connectTimeout, io, down, idleTime time.Duration
	idle                               int
	maxBody                            int
}

// ServersFor returns the servers in the order in which they are asked for a name: by md5 of the server's text, as
// configured, and the name. MediaWiki's client of PoolCounter has the same order.
func ServersFor(name string, servers []string) []string {
	keys := make(map[string]string, len(servers))
	for _, text := range servers {
		sum := md5.Sum([]byte(text + name))
		keys[text] = hex.EncodeToString(sum[:])
	}
	ordered := append([]string(nil), servers...)
	sort.SliceStable(ordered, func(i, j int) bool { return keys[ordered[i]] < keys[ordered[j]] })
	return ordered
}

// given returns the options that are set, as the URL would have them.
func (o *Options) given() map[string]string {
	seconds := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'g', -1, 64) }
	all := map[string]string{"text": o.Text, "binary": o.Binary, "jobs": o.Jobs, "tls_ca": o.TLSCA, "tls_cert": o.TLSCert,
		"tls_key": o.TLSKey, "tls_name": o.TLSName, "connect_timeout": seconds(o.ConnectTimeout), "io_timeout": seconds(o.IOTimeout),
		"down_seconds": seconds(o.DownTime), "idle_seconds": seconds(o.IdleTime), "max_body": strconv.FormatInt(o.MaxBody, 10),
		"idle": strconv.Itoa(o.Idle)}
	for key, value := range all {
		if value == "" || value == "0" {
			delete(all, key)
		}
	}
	if o.Idle == -1 {
		all["idle"] = "0"
	}
	if o.TLS {
		all["tls"] = "1"
	}
	return all
}

// parse checks a URL and the options that win over it.
func parse(text string, given map[string]string) (*options, error) {
	f, o, values := form{}, &options{ports: map[string]string{}}, map[string]string{}
	hosts, query, _ := strings.Cut(strings.TrimPrefix(text, "counter://"), "?")
	f.need(strings.HasPrefix(text, "counter://") && !strings.Contains(text, "#"),
		"%q: a URL is counter://HOST[:PORT][,HOST...][?OPTION=VALUE[&...]]", text)
	for query != "" {
		var part string
		part, query, _ = strings.Cut(query, "&")
		key, value, ok := strings.Cut(part, "=")
		decoded, err := url.PathUnescape(value)
		_, twice := values[key]
		f.need(ok && err == nil && decoded != "" && !twice, "%q: %q stands there twice, without a value, or with a wrong one", text, key)
		values[key] = decoded
	}
	for key, value := range given {
		values[key] = value
	}
	take := func(key string) string {
		value := values[key]
		delete(values, key)
		return value
	}
	number := func(key string, n, top float64) float64 {
		var err error
		if value, ok := values[key]; ok {
			n, err = strconv.ParseFloat(take(key), 64)
			f.need(err == nil && n >= 0 && n <= top, "%s: numbers from 0 to %.0f are allowed, not %q", key, top, value)
		}
		return n
	}
	seconds := func(key string, n float64) time.Duration {
		return time.Duration(number(key, n, longest.Seconds()) * float64(time.Second))
	}
	o.connectTimeout, o.io = seconds("connect_timeout", 1), seconds("io_timeout", 10)
	o.down, o.idleTime = seconds("down_seconds", 10), seconds("idle_seconds", 60)
	o.idle, o.maxBody = int(number("idle", 8, 1e6)), int(number("max_body", 64<<20, math.Min(1<<40, math.MaxInt-2)))
	isTLS := number("tls", 0, 1)
	f.need(isTLS == 0 || isTLS == 1, "tls: 0 and 1 are allowed")
	ca, cert, key, name := take("tls_ca"), take("tls_cert"), take("tls_key"), take("tls_name")
	if isTLS == 1 && f.err == nil {
		f.err = o.secure(ca, cert, key, name)
	}
	for proto := range defaultPorts {
		if value := take(proto); value != "" {
			o.ports[proto] = value
			o.checkPort(&f, proto, value)
		}
	}
	for key := range values {
		f.need(false, "there is no option %q", key)
	}
	if hosts = strings.TrimSuffix(hosts, "/"); hosts != "" {
		o.servers = strings.Split(hosts, ",")
	}
	for _, server := range o.servers {
		f.hostAndPort(server)
	}
	f.need(len(o.servers)+len(o.ports) > 0, "%q names no server", text)
	return o, f.err
}

func (o *options) checkPort(f *form, proto, value string) {
	if strings.HasPrefix(value, "unix:") {
		f.need(o.config == nil && len(value) > 5 && !strings.Contains(value, "\x00"), "%s=%q: unix:PATH without tls is allowed", proto, value)
	} else if proto == "text" {
		f.need(false, "text=%q: only unix:PATH stands there; ports stand in the URL", value)
	} else if proto == "jobs" && strings.Contains(value, ":") {
		_, port := f.hostAndPort(value)
		f.need(port != "", "jobs=%q: HOST:PORT, a port, or unix:PATH", value)
	} else {
		f.need(isPort(value), "%q is no port: 1 to 65535 are", value)
	}
}

// secure reads what TLS connections are made with.
func (o *options) secure(ca, cert, key, name string) error {
	o.config = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name}
	var err error
	if ca != "" {
		var data []byte
		o.config.RootCAs = x509.NewCertPool()
		if data, err = os.ReadFile(ca); err == nil && !o.config.RootCAs.AppendCertsFromPEM(data) {
			err = errors.New(ca + " has no certificate")
		}
	}
	if key == "" {
		key = cert
	}
	if cert != "" && err == nil {
		o.config.Certificates = make([]tls.Certificate, 1)
		o.config.Certificates[0], err = tls.LoadX509KeyPair(cert, key)
	}
	if err != nil {
		wrong := usage("", "tls_ca, tls_cert or tls_key can't be read, or has a password: check the files")
		wrong.Reason = quote(err.Error())
		return wrong
	}
	return nil
}

// hostAndPort splits HOST[:PORT], where HOST may be an IPv6 address in brackets.
func (f *form) hostAndPort(text string) (host, port string) {
	host = text
	if i := strings.LastIndexByte(text, ':'); i >= 0 && !strings.HasSuffix(text, "]") {
		host, port = text[:i], text[i+1:]
		f.need(isPort(port), "%q is no port: 1 to 65535 are", port)
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	} else {
		f.need(!strings.Contains(host, ":"), "%q: an IPv6 address stands in brackets", text)
	}
	f.need(host != "" && !strings.ContainsAny(host, "@/?#[]\x7f") && strings.IndexFunc(host, func(r rune) bool { return r <= ' ' }) < 0,
		"%q is no HOST or HOST:PORT", text)
	return host, port
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// points returns the servers of a protocol.
func (o *options) points(proto string) (found []*point, err error) {
	f, own := form{}, o.ports[proto]
	if own != "" && !isPort(own) {
		f.need(len(o.servers) < 2 || proto == "jobs", "%s=%s: one address for several servers", proto, own)
		at := &point{text: own, proto: proto, network: "tcp"}
		if path := strings.TrimPrefix(own, "unix:"); path != own {
			at.network, at.host = "unix", path
		} else {
			at.host, at.port = f.hostAndPort(own)
		}
		return []*point{at}, f.err
	}
	f.need(len(o.servers) == 1 || len(o.servers) > 1 && proto != "jobs", "the URL has to name one address for this call: %s=", proto)
	for _, text := range o.servers {
		host, port := f.hostAndPort(text)
		if proto != "text" {
			port = own
		}
		if f.need(port != "" || o.config == nil, "with tls, the URL has to name the port for this call (%s)", proto); port == "" {
			port = defaultPorts[proto]
		}
		found = append(found, &point{text: text, proto: proto, network: "tcp", host: host, port: port})
	}
	return found, f.err
}
