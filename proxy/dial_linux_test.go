package proxy

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// deaf is a listener whose queue is full: whoever connects next has to wait.
type deaf struct {
	t        *testing.T
	fd       int
	address  string
	fillers  []net.Conn
	accepted []int
}

func newDeaf(t *testing.T) *deaf {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	d := &deaf{t: t, fd: fd}
	t.Cleanup(func() {
		unix.Close(d.fd)
		for _, conn := range d.fillers {
			conn.Close()
		}
	})
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	d.address = fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
	for {
		conn, err := net.DialTimeout("tcp", d.address, 100*time.Millisecond)
		if err != nil {
			return d
		}
		d.fillers = append(d.fillers, conn)
	}
}

// hear accepts those that fill the queue.
func (d *deaf) hear() {
	for range d.fillers {
		fd, _, err := unix.Accept(d.fd)
		if err != nil {
			d.t.Fatal(err)
		}
		unix.Close(fd)
	}
}

func expectRefusal(t *testing.T, client *end, reason string) {
	t.Helper()
	client.SetReadDeadline(time.Now().Add(patience))
	b, err := io.ReadAll(client)
	if err != nil || !strings.Contains(string(b), "("+reason+")") {
		t.Errorf("%q, %v; want %s", b, err, reason)
	}
	client.Close()
}

func TestBackendDoesNotAnswer(t *testing.T) {
	d := newDeaf(t)
	r := newRig(t, rigOptions{driver: "loop", backend: d.address, change: func(o *Options) { o.ConnectTimeout = 50 * time.Millisecond }})
	expectRefusal(t, r.client(), "no answer within 50ms")
	r.empty()
	if n := r.server.Counts().DialFailures.Load(); n != 1 {
		t.Errorf("%d failures were counted", n)
	}
}

func TestDrainWhileDialling(t *testing.T) {
	d := newDeaf(t)
	r := newRig(t, rigOptions{driver: "loop", backend: d.address})
	r.settled()
	client := r.client()
	r.eventually("it dials", func() bool { return len(r.loop().dialsNow()) == 1 })
	r.driver().drain()
	expectRefusal(t, client, "tmpproxy is shutting down")
	// One that comes later is told the same.
	expectRefusal(t, r.client(), "tmpproxy is shutting down")
	r.empty()
}

// dialsNow are the deadlines of the connections that are being made.
func (l *loop) dialsNow() (dials []deadline) {
	l.do(func() { dials = append(dials, l.dials...) })
	return dials
}

// TestBackendAnswersLate: what the client has sent meanwhile waits.
func TestBackendAnswersLate(t *testing.T) {
	d := newDeaf(t)
	r := newRig(t, rigOptions{driver: "loop", backend: d.address})
	r.settled()
	client := r.client()
	client.send("sent blindly")
	r.eventually("it dials", func() bool { return len(r.loop().dialsNow()) == 1 })
	d.hear()
	fd, _, err := unix.Accept(d.fd) // the kernel tries again within a second or some
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, err := unix.Read(fd, b)
	if err != nil || string(b[:n]) != "sent blindly" {
		t.Errorf("%q, %v", b[:n], err)
	}
	unix.Write(fd, []byte("hello"))
	client.expect("hello")
	unix.Close(fd)
	client.expectEnd("")
	client.Close()
	r.empty()
}

func TestSocketAddress(t *testing.T) {
	tests := []struct {
		address string
		want    unix.Sockaddr
	}{
		{"127.0.0.1:3306", &unix.SockaddrInet4{Port: 3306, Addr: [4]byte{127, 0, 0, 1}}},
		{"[::1]:3306", &unix.SockaddrInet6{Port: 3306, Addr: netip.IPv6Loopback().As16()}},
		{"/run/mysqld/mysqld.sock", &unix.SockaddrUnix{Name: "/run/mysqld/mysqld.sock"}},
		{"localhost:3306", nil},
		{":3306", nil},
		{"127.0.0.1:mysql", nil},
		{"[fe80::1%eth0]:3306", nil},
	}
	for _, test := range tests {
		got := socketAddress(test.address)
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", test.want) {
			t.Errorf("%s: %+v, want %+v", test.address, got, test.want)
		}
	}
}
