package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
)

// A listener that is closed resets the connections that wait in its queue, and those that are being made. With Options.Share another
// process listens at the same address, and these would have been its own as well. So the listener gets no new ones first, then all are
// accepted that it still has, and only then it is closed.
const (
	underWay = 300 * time.Millisecond // how long a connection may take to be made
	queueEnd = 20 * time.Millisecond  // a queue that brings nothing for as long is empty
	lastCall = 5 * time.Second        // bounds all of it
)

// Listen binds host:port, or the path of a unix socket, to be shared with other processes of the same user: host:port by
// SO_REUSEPORT, a path by taking it over.
func Listen(address string) (net.Listener, error) {
	if network(address) == "unix" {
		return takeOver(address)
	}
	config := net.ListenConfig{KeepAliveConfig: keepAlive, Control: share}
	config.SetMultipathTCP(false)
	l, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return l, nil
}

// takeOver binds a unix socket beside path and moves it there. Whoever listened there before keeps the connections that are in
// its queue.
func takeOver(path string) (net.Listener, error) {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != os.ModeSocket {
		return nil, fmt.Errorf("listen on %s: the file exists and is not a socket", path)
	}
	beside := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := removeStale(beside); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", beside, err)
	}
	l, err := net.Listen("unix", beside)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", beside, err)
	}
	unix := l.(*net.UnixListener)
	unix.SetUnlinkOnClose(false)
	own, err := os.Lstat(beside)
	if err == nil {
		err = os.Rename(beside, path)
	}
	if err != nil {
		l.Close()
		os.Remove(beside)
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return &movedListener{UnixListener: unix, path: path, own: own}, nil
}

// movedListener listens on a unix socket whose file was moved.
type movedListener struct {
	*net.UnixListener
	path string
	own  os.FileInfo
}

func (l *movedListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Close removes the socket's file unless it is another process's by now.
func (l *movedListener) Close() error {
	if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.own) {
		os.Remove(l.path)
	}
	return l.UnixListener.Close()
}

// inherited is a TCP listener that another program has made. It does not know keepAlive.
type inherited struct{ *net.TCPListener }

func (l inherited) Accept() (net.Conn, error) {
	conn, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	conn.SetKeepAliveConfig(keepAlive) // without it a vanished peer is found later
	return conn, nil
}

// handOver accepts everything that the listeners have, and returns when accepting has ended.
func (s *Server) handOver(accepting *sync.WaitGroup) {
	for _, l := range s.listeners {
		if l, ok := l.(*net.TCPListener); ok {
			if err := turnAway(l); err != nil {
				s.log.Warn("connections may be reset at the end of listening", zap.Stringer("listener", l.Addr()), zap.Error(err))
			}
		}
	}
	time.Sleep(underWay)
	s.last.Store(true)
	for _, l := range s.listeners {
		if l, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
			l.SetDeadline(time.Unix(1, 0)) // wakes who waits in Accept
		}
	}
	ended := make(chan struct{})
	go func() {
		accepting.Wait()
		close(ended)
	}()
	limit := time.NewTimer(lastCall)
	defer limit.Stop()
	select {
	case <-ended:
	case <-limit.C: // closing the listeners ends it
	}
}

// lastCall prepares for one of the last calls of Accept, and says whether it is one.
func (s *Server) lastCall(l net.Listener) bool {
	if !s.last.Load() {
		return false
	}
	if l, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
		l.SetDeadline(time.Now().Add(queueEnd))
	}
	return true
}

// waked says whether Accept failed because there is nothing left to accept, or because handOver waked it.
func waked(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
