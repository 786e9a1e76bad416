package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"
)

const testToken = "0123456789abcdef-token"

// acting are options with an action that counts its calls and answers with what it was told.
func acting(calls *int) Options {
	o := options()
	o.Token = testToken
	o.Actions = map[string]Action{
		"/api/sessions": func(_ context.Context, body json.RawMessage) (any, error) {
			*calls++
			var told struct {
				Say string `json:"say"`
			}
			if err := json.Unmarshal(body, &told); err != nil {
				return nil, err
			}
			switch told.Say {
			case "wrong":
				return nil, errors.New("that is wrong")
			case "busy":
				return nil, &StatusError{http.StatusConflict, errors.New("something else is under way")}
			}
			return told, nil
		},
	}
	return o
}

// post sends a request that is allowed but for what change does.
func post(s *Server, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/api/sessions", strings.NewReader(`{"say":"hello"}`))
	r.Host = "localhost:9104"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+testToken)
	change(r)
	ctx := context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 9104})
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, r.WithContext(ctx))
	return w
}

func body(text string) func(*http.Request) {
	return func(r *http.Request) {
		changed := httptest.NewRequest("POST", "/", strings.NewReader(text))
		r.Body, r.ContentLength = changed.Body, changed.ContentLength
	}
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func TestActions(t *testing.T) {
	const none = "\x00"
	for _, test := range []struct {
		name    string
		network string // tcp where it is empty
		token   string // none: there is none; "" the usual one
		change  func(*http.Request)
		status  int
		want    string
		called  bool
	}{
		{"allowed", "", "", func(*http.Request) {}, 200, `"say": "hello"`, true},
		{"scheme in small letters, a charset", "", "", func(r *http.Request) {
			r.Header.Set("Authorization", "bearer "+testToken)
			r.Header.Set("Content-Type", "application/json; charset=utf-8")
		}, 200, `"say": "hello"`, true},
		{"no token sent", "", "", func(r *http.Request) { r.Header.Del("Authorization") }, 401, "token of admin.token_file is needed", false},
		{"wrong token", "", "", header("Authorization", "Bearer "+testToken+"x"), 401, "is needed", false},
		{"beginning of the token", "", "", header("Authorization", "Bearer "+testToken[:20]), 401, "is needed", false},
		{"empty token", "", "", header("Authorization", "Bearer "), 401, "is needed", false},
		{"another scheme", "", "", header("Authorization", "Basic "+testToken), 401, "is needed", false},
		{"no token configured", "", none, func(*http.Request) {}, 403, "admin.token_file, or an admin.address that is a unix socket", false},
		{"no token configured, none sent", "", none, header("Authorization", "Bearer "), 403, "nothing can be changed here", false},
		{"unix socket", "unix", none, func(r *http.Request) { r.Header.Del("Authorization") }, 200, "hello", true},
		{"unix socket with a token that is not sent", "unix", "", func(r *http.Request) { r.Header.Del("Authorization") }, 200, "hello", true},
		{"unix socket by a foreign name", "unix", none, func(r *http.Request) { r.Host = "evil.example:9104" }, 421, "host name is not known", false},
		{"foreign name", "", "", func(r *http.Request) { r.Host = "evil.example:9104" }, 421, "host name is not known", false},
		{"another site's page", "", "", header("Sec-Fetch-Site", "cross-site"), 403, "page of another site", false},
		{"a page of another port", "", "", header("Sec-Fetch-Site", "same-site"), 403, "page of another site", false},
		{"our own page", "", "", header("Sec-Fetch-Site", "same-origin"), 200, "hello", true},
		{"another site's page, unix socket", "unix", none, header("Sec-Fetch-Site", "cross-site"), 403, "page of another site", false},
		{"old browser, another site", "", "", header("Origin", "http://evil.example"), 403, "page of another site", false},
		{"old browser, another port", "", "", header("Origin", "http://localhost:8080"), 403, "page of another site", false},
		{"old browser, no origin told", "", "", header("Origin", "null"), 403, "page of another site", false},
		{"old browser, our own page", "", "", header("Origin", "http://localhost:9104"), 200, "hello", true},
		{"form", "", "", header("Content-Type", "application/x-www-form-urlencoded"), 415, "application/json", false},
		{"form as text, unix socket", "unix", none, header("Content-Type", "text/plain"), 415, "application/json", false},
		{"no type", "", "", func(r *http.Request) { r.Header.Del("Content-Type") }, 415, "application/json", false},
		{"no JSON", "", "", body(`{"say":`), 400, "not JSON", false},
		{"more than JSON", "", "", body(`{"say":"hello"}{}`), 400, "not JSON", false},
		{"nothing", "", "", body(""), 400, "not JSON", false},
		{"too long", "", "", body(`{"say":"` + strings.Repeat("a", maxBody) + `"}`), 413, "longer than 65536 bytes", false},
		{"as long as allowed", "", "", body(`{"say":"` + strings.Repeat("a", maxBody-10) + `"}`), 200, "aaa", true},
		{"action fails", "", "", body(`{"say":"wrong"}`), 400, `"error": "that is wrong"`, true},
		{"action fails with a status", "", "", body(`{"say":"busy"}`), 409, `"error": "something else is under way"`, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls := 0
			o := acting(&calls)
			if test.network != "" {
				o.Network, o.Address = test.network, "/run/x.sock"
			}
			if test.token == none {
				o.Token = ""
			}
			core, logs := observer.New(zap.DebugLevel)
			w := post(New(zap.New(core), o), test.change)
			if w.Code != test.status || !strings.Contains(w.Body.String(), test.want) {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
			if (calls == 1) != test.called {
				t.Errorf("%d calls", calls)
			}
			if challenge := w.Header().Get("WWW-Authenticate"); (challenge != "") != (test.status == 401) {
				t.Errorf("WWW-Authenticate: %q", challenge)
			}
			for _, record := range logs.All() {
				if fields := record.ContextMap(); strings.Contains(record.Message, testToken) || strings.Contains(toJSON(t, fields), testToken) {
					t.Errorf("the token is in the log: %s %v", record.Message, fields)
				}
			}
			if strings.Contains(w.Body.String(), testToken) {
				t.Errorf("the token is in the answer: %s", w.Body)
			}
			if test.called && logs.Len() != 1 {
				t.Errorf("%d log records of an action", logs.Len())
			}
		})
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSetToken(t *testing.T) {
	calls := 0
	s := New(zaptest.NewLogger(t), acting(&calls))
	for _, step := range []struct {
		token   string
		status  int
		changes string
	}{{testToken, 200, "token"}, {"another-token-altogether", 401, "token"}, {"", 403, "refused"}, {testToken, 200, "token"}} {
		s.SetToken(step.token)
		if got := s.Changes(); got != step.changes {
			t.Errorf("with %q: changes are %s", step.token, got)
		}
		if w := post(s, func(*http.Request) {}); w.Code != step.status {
			t.Errorf("with %q: %d, want %d", step.token, w.Code, step.status)
		}
	}
}

func TestChangesFree(t *testing.T) {
	o := options()
	o.Network, o.Address = "unix", "/run/x.sock"
	if got := New(zaptest.NewLogger(t), o).Changes(); got != "free" {
		t.Errorf("got %s", got)
	}
}

// TestActionMethods has a path that is a page and an action, and methods that are neither.
func TestActionMethods(t *testing.T) {
	calls := 0
	o := acting(&calls)
	o.Actions["/api/only"] = o.Actions["/api/sessions"]
	s := New(zaptest.NewLogger(t), o)
	for _, test := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/api/sessions", 200, ""},
		{"GET", "/api/only", 405, "POST"},
		{"PUT", "/api/sessions", 405, "GET, HEAD, POST"},
		{"DELETE", "/api/only", 405, "POST"},
		{"POST", "/api/version", 405, "GET, HEAD"},
		{"OPTIONS", "/api/sessions", 405, "GET, HEAD, POST"},
	} {
		w := get(s, test.method, test.path, "localhost")
		if w.Code != test.status || w.Header().Get("Allow") != test.allow {
			t.Errorf("%s %s: %d, Allow %q", test.method, test.path, w.Code, w.Header().Get("Allow"))
		}
	}
	if calls != 0 {
		t.Errorf("%d calls", calls)
	}
}

// TestQuit asks /quitquitquit from near and far, with and without what other changes take.
func TestQuit(t *testing.T) {
	bare := func(r *http.Request) {
		r.Header.Del("Content-Type")
		r.Header.Del("Authorization")
		r.Body, r.ContentLength = http.NoBody, 0
	}
	from := func(peer string, changes ...func(*http.Request)) func(*http.Request) {
		return func(r *http.Request) {
			r.RemoteAddr = peer
			for _, change := range changes {
				change(r)
			}
		}
	}
	for _, test := range []struct {
		name   string
		local  bool
		change func(*http.Request)
		status int
	}{
		{"bare, from here", true, from("127.0.0.1:40000", bare), 200},
		{"bare, from here by IPv6", true, from("[::1]:40000", bare), 200},
		{"bare, from here by IPv4 in IPv6", true, from("[::ffff:127.0.0.1]:40000", bare), 200},
		{"bare, from elsewhere", true, from("10.1.2.4:40000", bare), 401},
		{"bare, from the machine's own address", true, from("10.1.2.3:40000", bare), 401},
		{"bare, from a unix socket's peer", true, from("@", bare), 401},
		{"bare, from here, not switched on", false, from("127.0.0.1:40000", bare), 401},
		{"token, from elsewhere", false, from("10.1.2.4:40000"), 200},
		{"token but no body, from elsewhere", false, from("10.1.2.4:40000", bare, header("Authorization", "Bearer "+testToken)), 200},
		{"wrong token, from elsewhere", true, from("10.1.2.4:40000", header("Authorization", "Bearer x")), 401},
		{"another site's page", true, from("127.0.0.1:40000", bare, header("Sec-Fetch-Site", "cross-site")), 403},
		{"old browser, another site's page", true, from("127.0.0.1:40000", bare, header("Origin", "http://evil.example")), 403},
		{"a name that was led here", true, from("127.0.0.1:40000", bare, func(r *http.Request) { r.Host = "evil.example" }), 421},
		{"form", true, from("127.0.0.1:40000", header("Content-Type", "text/plain")), 415},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls, others := 0, 0
			o := acting(&others)
			o.Quit = func(context.Context, json.RawMessage) (any, error) { calls++; return struct{}{}, nil }
			o.QuitLocal = test.local
			w := post(New(zaptest.NewLogger(t), o), func(r *http.Request) {
				r.URL.Path = "/quitquitquit"
				test.change(r)
			})
			if w.Code != test.status || (calls == 1) != (test.status == 200) {
				t.Errorf("%d %s, %d calls", w.Code, w.Body, calls)
			}
			if _, there := o.Actions["/quitquitquit"]; there {
				t.Error("the caller's map was changed")
			}
		})
	}
	// Nothing else is open to who is here.
	o := acting(new(int))
	o.QuitLocal = true
	if w := post(New(zaptest.NewLogger(t), o), from("127.0.0.1:40000", header("Authorization", ""))); w.Code != 401 {
		t.Errorf("another action: %d", w.Code)
	}
	if w := post(New(zaptest.NewLogger(t), o), func(r *http.Request) { r.URL.Path = "/quitquitquit" }); w.Code != 405 {
		t.Errorf("no such action: %d", w.Code)
	}
}
