// Package admin serves what an operator asks about a running proxy over HTTP: metrics, health, lists as JSON, and a page that shows
// them; and takes what the operator wants changed. The page, in folder dashboard, is plain HTML, CSS and JavaScript as it is served;
// it asks for the JSON that others can ask for as well.
//
// GET and HEAD change nothing and are answered to everybody. POST is answered on the paths of Options.Actions only, to who has the
// token, or on a unix socket, whose file's permissions say who may; and on /quitquitquit, as Options.QuitLocal says. There is no TLS; the address belongs on the loopback interface or
// in a private network. A page in somebody's browser can neither read the answers by rebinding its name to our address, since the
// Host header is checked, nor change anything, since requests made by pages of other sites are refused, and so are bodies of the types
// that a form can send.
package admin

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// Options say where and what a Server serves. The functions are called from several goroutines at once.
type Options struct {
	Network, Address string       // as for net.Listen: tcp or unix
	Listener         net.Listener // of this address, if it is open already; the server closes it
	Hosts            []string     // host names, without ports, that may be asked for besides the address and localhost
	PProf            bool         // serve Go's profiles under /debug/pprof/

	Metrics prometheus.Gatherer
	// Alive says why the proxy is beyond help, or nil. Its answer is used for a second.
	Alive func(context.Context) error
	// Ready says why the proxy cannot serve clients at present, or nil. Its answer is used for a second.
	Ready func(context.Context) error
	// Pages are the answers that are sent as JSON, by path.
	Pages map[string]func() any
	// Actions are what can be changed, by path, which may be that of a page as well.
	Actions map[string]Action
	Token   string // that actions need on a TCP address; "" has them refused there

	// Quit is the action of /quitquitquit, if there is one. Its body may be missing. With QuitLocal it takes no token from who asks
	// over the loopback interface.
	Quit      Action
	QuitLocal bool
}

// quitPath is where the programs that sidecars are ended by look for it.
const quitPath = "/quitquitquit"

// Bounds of one request. Profiles that take longer extend the time for writing themselves.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 16 << 10

	readyTimeout = 2 * time.Second // of one look
	readyAge     = time.Second     // how long its result is used
)

// Server serves one address. Its methods are safe for concurrent use.
type Server struct {
	log      *zap.Logger
	options  Options
	http     http.Server
	listener net.Listener
	origins  *http.CrossOriginProtection
	token    atomic.Pointer[[sha256.Size]byte] // of Options.Token or SetToken; nil: none
}

// New returns a server that does not listen yet.
func New(log *zap.Logger, o Options) *Server {
	if o.Quit != nil {
		o.Actions = maps.Clone(o.Actions)
		if o.Actions == nil {
			o.Actions = make(map[string]Action)
		}
		o.Actions[quitPath] = o.Quit
	}
	s := &Server{log: log, options: o, origins: http.NewCrossOriginProtection()}
	s.SetToken(o.Token)
	s.http = http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          zap.NewStdLog(log),
	}
	return s
}

// Listen opens the address. The socket of a proxy that is gone is replaced.
func (s *Server) Listen() error {
	if s.listener = s.options.Listener; s.listener != nil {
		return nil
	}
	listener, err := net.Listen(s.options.Network, s.options.Address)
	if errors.Is(err, syscall.EADDRINUSE) && s.options.Network == "unix" && abandoned(s.options.Address) {
		if err = os.Remove(s.options.Address); err == nil {
			listener, err = net.Listen(s.options.Network, s.options.Address)
		}
	}
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	s.listener = listener
	return nil
}

// abandoned says whether nobody listens at a unix socket any more.
func abandoned(path string) bool {
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// Addr returns where the server listens, after Listen.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve answers requests until Shutdown. Listen comes before it.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin: %w", err)
	}
	return nil
}

// Shutdown stops listening and waits until ctx ends for the requests under way.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	return nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.options.Metrics, promhttp.HandlerOpts{ErrorLog: zap.NewStdLog(s.log)}))
	for path, look := range map[string]func(context.Context) error{"/healthz": s.options.Alive, "/readyz": s.options.Ready} {
		r := readiness{look: look, now: time.Now}
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			if err := r.check(); err != nil {
				say(w, http.StatusServiceUnavailable, err.Error())
				return
			}
			say(w, http.StatusOK, "ok")
		})
	}
	mux.HandleFunc("GET /{$}", serveDashboard)
	mux.HandleFunc("GET /dashboard/", serveDashboard)
	for path, page := range s.options.Pages {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { s.answer(w, http.StatusOK, page()) })
	}
	for path, action := range s.options.Actions {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { s.act(w, r, action) })
	}
	if s.options.PProf {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return s.guard(mux)
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

// answer sends v as JSON.
func (s *Server) answer(w http.ResponseWriter, status int, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		s.log.Error("admin: encode an answer", zap.Error(err))
		say(w, http.StatusInternalServerError, "the answer could not be encoded")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(text, '\n')) // an error is the reader's: it has left
}

// guard refuses other methods, before the mux would answer for unknown paths, and requests for a name that is not ours.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
		read := r.Method == http.MethodGet || r.Method == http.MethodHead
		_, action := s.options.Actions[r.URL.Path]
		_, page := s.options.Pages[r.URL.Path]
		allowed := "GET, HEAD"
		switch {
		case action && page:
			allowed += ", POST"
		case action:
			allowed = "POST"
		}
		if read && allowed == "POST" || !read && !(action && r.Method == http.MethodPost) {
			h.Set("Allow", allowed)
			say(w, http.StatusMethodNotAllowed, "answered here: "+allowed)
			return
		}
		// A browser can be led to a unix socket by way of a forwarded port. Reading it so is who forwards's own business.
		if !s.ours(r) && !(read && s.options.Network == "unix") {
			say(w, http.StatusMisdirectedRequest, "this host name is not known here: admin.hosts lists further ones")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ours says whether the request's Host is a name of this server: localhost, a loopback address, the address that is listened on or
// that the connection came to, or a configured one.
func (s *Server) ours(r *http.Request) bool {
	host := hostname(r.Host)
	if host == "" {
		return false
	}
	if ip := net.ParseIP(host); ip != nil {
		if ip.IsLoopback() {
			return true
		}
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && local.IP.Equal(ip) {
			return true
		}
	}
	if strings.EqualFold(host, "localhost") || strings.EqualFold(host, hostname(s.options.Address)) {
		return true
	}
	for _, name := range s.options.Hosts {
		if strings.EqualFold(host, hostname(name)) {
			return true
		}
	}
	return false
}

// hostname returns a Host header or an address without port, brackets and the root's dot.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.TrimSuffix(host, ".")
}

// readiness remembers the last look, at the backend say: probes come from several sides and must not cost the backend a connection
// each. One look is under way at a time; who comes meanwhile waits for its result.
type readiness struct {
	look func(context.Context) error
	now  func() time.Time

	mu    sync.Mutex
	until time.Time
	last  error
}

func (r *readiness) check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now().Before(r.until) {
		return r.last
	}
	// Not the request's context: the result is for all who wait.
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	r.last = r.look(ctx)
	r.until = r.now().Add(readyAge)
	return r.last
}
