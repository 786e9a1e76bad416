package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"strings"

	"go.uber.org/zap"
)

// Action changes something, as the body of a POST says, and returns what is answered as JSON. It is called from several goroutines at
// once. An error is told to who asked; its status is 400 unless it is a *StatusError.
type Action func(ctx context.Context, body json.RawMessage) (any, error)

// StatusError is an error of an Action that is answered with a status of its own.
type StatusError struct {
	Status int
	Err    error
}

func (e *StatusError) Error() string { return e.Err.Error() }
func (e *StatusError) Unwrap() error { return e.Err }

const maxBody = 64 << 10 // bytes of what an Action is told

// failure is how a refused or failed Action is answered.
type failure struct {
	Error string `json:"error"`
}

// SetToken changes the token that actions need on a TCP address; "" has them refused there. Safe for concurrent use.
func (s *Server) SetToken(token string) {
	if token == "" {
		s.token.Store(nil)
		return
	}
	sum := sha256.Sum256([]byte(token))
	s.token.Store(&sum)
}

// What changing something takes, as Changes says.
const (
	ChangesFree    = "free"    // nothing: the listener is a unix socket
	ChangesToken   = "token"   // the token
	ChangesRefused = "refused" // it is not possible
)

// Changes says what changing something takes at present. Safe for concurrent use.
func (s *Server) Changes() string {
	switch {
	case s.options.Network == "unix":
		return ChangesFree
	case s.token.Load() != nil:
		return ChangesToken
	}
	return ChangesRefused
}

// act answers a POST to an Action's path.
func (s *Server) act(w http.ResponseWriter, r *http.Request, action Action) {
	refuse := func(status int, format string, args ...any) {
		s.answer(w, status, failure{fmt.Sprintf(format, args...)})
	}
	if err := s.origins.Check(r); err != nil {
		refuse(http.StatusForbidden, "this request was made by a page of another site")
		return
	}
	if status, err := s.permitted(r); err != nil {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="tmpproxy"`)
		}
		refuse(status, "%v", err)
		return
	}
	// A page of another site can send neither: a body of that type, nor a request without its origin.
	bare := r.URL.Path == quitPath && r.ContentLength == 0
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); !bare && (err != nil || kind != "application/json") {
		refuse(http.StatusUnsupportedMediaType, "the body has to be of type application/json")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		refuse(http.StatusRequestEntityTooLarge, "the body is longer than %d bytes", maxBody)
		return
	case err != nil:
		refuse(http.StatusBadRequest, "the body could not be read")
		return
	case !bare && !json.Valid(body):
		refuse(http.StatusBadRequest, "the body is not JSON")
		return
	}
	result, err := action(r.Context(), body)
	if err != nil {
		status := http.StatusBadRequest
		if own := (*StatusError)(nil); errors.As(err, &own) {
			status = own.Status
		}
		s.log.Warn("admin: action failed", zap.String("path", r.URL.Path), zap.String("client", r.RemoteAddr), zap.Error(err))
		refuse(status, "%v", err)
		return
	}
	s.log.Info("admin: action", zap.String("path", r.URL.Path), zap.String("client", r.RemoteAddr))
	s.answer(w, http.StatusOK, result)
}

// permitted says whether who asks may change something, or why not. The permissions of a unix socket's file say it there.
func (s *Server) permitted(r *http.Request) (int, error) {
	if s.options.Network == "unix" || r.URL.Path == quitPath && s.options.QuitLocal && fromHere(r) {
		return 0, nil
	}
	want := s.token.Load()
	if want == nil {
		return http.StatusForbidden, errors.New("nothing can be changed here: that takes admin.token_file, or an admin.address that is a unix socket")
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(strings.TrimSpace(token))) // of one length, whatever was sent
	if subtle.ConstantTimeCompare(got[:], want[:]) != 1 || !strings.EqualFold(scheme, "Bearer") {
		return http.StatusUnauthorized, errors.New("the token of admin.token_file is needed: Authorization: Bearer TOKEN")
	}
	return 0, nil
}

// fromHere says whether a request came over the loopback interface: in a pod, from one of its containers.
func fromHere(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback()
}
