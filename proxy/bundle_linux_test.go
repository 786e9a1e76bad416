package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// exchange has every session send n bytes from one side to the other, in one batch.
func (l *still) exchange(from side, far [][2]int, b []byte) {
	for _, f := range far {
		unix.Write(f[from], b)
	}
	l.batch(l.events[:l.calls.wait(l.epoll, l.events[:], -1)])
	for _, f := range far {
		if n, err := unix.Read(f[from.other()], l.received[:]); n != len(b) {
			panic(fmt.Sprintf("%d bytes of %d: %v", n, len(b), err))
		}
	}
}

// TestSystemCallsOfManySessions counts the calls for commands that come together: reading each is a call, answering all is one.
func TestSystemCallsOfManySessions(t *testing.T) {
	const sessions, rounds = 16, 20
	for name, bundling := range map[string]bool{"bundled": true, "one by one": false} {
		t.Run(name, func(t *testing.T) {
			l := newStill(t)
			if got := l.server.IOURing(); got != (l.bundler != nil) {
				t.Errorf("io_uring is said to be in use: %v", got)
			}
			if !bundling && l.bundler != nil {
				l.bundler.close()
				l.bundler = nil
			}
			var far [][2]int
			for range sessions {
				_, f := l.member(t, nil)
				far = append(far, f)
			}
			b := make([]byte, 200)
			l.calls = calls{}
			for range rounds {
				l.exchange(clientSide, far, b)
				l.exchange(backendSide, far, b)
			}
			want := calls{waits: 2 * rounds, reads: 2 * rounds * sessions}
			if l.bundler != nil {
				want.bundles, want.bundled = 2*rounds, 2*rounds*sessions
			} else {
				want.writes = 2 * rounds * sessions
			}
			if l.calls != want {
				t.Errorf("%+v, want %+v", l.calls, want)
			}
			if n := testing.AllocsPerRun(20, func() { l.exchange(clientSide, far, b) }); n != 0 {
				t.Errorf("%v allocations for %d commands", n, sessions)
			}
		})
	}
}

// TestManySessionsInOneBatch has more sessions speak than a bundle and the buffer have room for.
func TestManySessionsInOneBatch(t *testing.T) {
	l := newStill(t)
	var far [][2]int
	var events []unix.EpollEvent
	for i := range batchSize {
		m, f := l.member(t, nil)
		unix.Write(f[clientSide], bytes.Repeat([]byte{byte(i)}, 100*i))
		far = append(far, f)
		events = append(events, m.event(clientSide, unix.EPOLLIN))
	}
	l.batch(events)
	for i, f := range far {
		b := make([]byte, 100*batchSize)
		n := 0
		if i > 0 {
			n, _ = unix.Read(f[backendSide], b)
		}
		if !bytes.Equal(b[:n], bytes.Repeat([]byte{byte(i)}, 100*i)) {
			t.Errorf("session %d: %d bytes, or others", i, n)
		}
	}
	if l.calls.bundled+l.calls.writes != batchSize-1 || l.bundler != nil && l.calls.bundles < 2 {
		t.Errorf("%+v", l.calls)
	}
}

// TestBundleWithAFullSocket: what a socket of many does not take is queued, and asked for again.
func TestBundleWithAFullSocket(t *testing.T) {
	l := newStill(t)
	full, farFull := l.member(t, nil)
	other, farOther := l.member(t, nil)
	filled := 0
	for {
		n, err := unix.Write(int(full.legs[backendSide].fd), make([]byte, 4096))
		if err != nil {
			break
		}
		filled += n
	}
	for _, f := range [][2]int{farFull, farOther} {
		unix.Write(f[clientSide], []byte("command"))
	}
	l.batch([]unix.EpollEvent{full.event(clientSide, unix.EPOLLIN), other.event(clientSide, unix.EPOLLIN)})
	if g := &full.legs[backendSide]; string(g.queue) != "command" || g.events != unix.EPOLLIN|unix.EPOLLOUT {
		t.Fatalf("queue %q, events %#x, %+v", g.queue, g.events, l.calls)
	}
	b := make([]byte, filled+100)
	if n, _ := unix.Read(farOther[backendSide], b); string(b[:n]) != "command" {
		t.Errorf("the other session's backend got %q", b[:n])
	}
	got := 0
	for got < filled {
		n, err := unix.Read(farFull[backendSide], b)
		if err != nil {
			t.Fatal(err)
		}
		got += n
	}
	l.batch([]unix.EpollEvent{full.event(backendSide, unix.EPOLLOUT)})
	if n, _ := unix.Read(farFull[backendSide], b); string(b[:n]) != "command" {
		t.Errorf("the backend got %q", b[:n])
	}
	if g := &full.legs[backendSide]; g.queue != nil || g.events != unix.EPOLLIN {
		t.Errorf("queue %q, events %#x", g.queue, g.events)
	}
}

// TestBundleWithABrokenSocket: a session of many that cannot write is told so, before anything else.
func TestBundleWithABrokenSocket(t *testing.T) {
	l := newStill(t)
	var heard []input
	broken, farBroken := l.member(t, &script{on: func(s *script, in input, at side, b []byte, out *output) bool {
		heard = append(heard, in)
		return false
	}})
	other, farOther := l.member(t, nil)
	unix.Shutdown(farBroken[backendSide], unix.SHUT_RD)
	for _, f := range [][2]int{farBroken, farOther} {
		unix.Write(f[clientSide], []byte("command"))
	}
	l.batch([]unix.EpollEvent{broken.event(clientSide, unix.EPOLLIN), other.event(clientSide, unix.EPOLLIN)})
	if want := []input{inputStart, inputReceived, inputWriteFailed}; !slices.Equal(heard, want) || !broken.legs[backendSide].dead {
		t.Errorf("%v, want %v", heard, want)
	}
	b := make([]byte, 100)
	if n, _ := unix.Read(farOther[backendSide], b); string(b[:n]) != "command" {
		t.Errorf("the other session's backend got %q", b[:n])
	}
}

// TestBothSidesInOneBatch: what a session said first is written before it is told anything else, for which its bytes would not be
// valid any more.
func TestBothSidesInOneBatch(t *testing.T) {
	l := newStill(t)
	own := []byte("first")
	m, far := l.member(t, &script{on: func(s *script, in input, at side, b []byte, out *output) bool {
		switch {
		case in == inputReceived && at == clientSide:
			out.to(backendSide, own)
			return true
		case in == inputReceived:
			copy(own, "other")
		}
		return false
	}})
	unix.Write(far[clientSide], []byte("x"))
	unix.Write(far[backendSide], []byte("y"))
	l.batch([]unix.EpollEvent{m.event(clientSide, unix.EPOLLIN), m.event(backendSide, unix.EPOLLIN)})
	b := make([]byte, 100)
	if n, _ := unix.Read(far[backendSide], b); string(b[:n]) != "first" {
		t.Errorf("the backend got %q", b[:n])
	}
	if n, _ := unix.Read(far[clientSide], b); string(b[:n]) != "y" {
		t.Errorf("the client got %q", b[:n])
	}
}

// aBundler makes a bundler, or nil where the kernel has none for us: then a loop does without.
func aBundler(t *testing.T) *bundler {
	t.Helper()
	b, err := newBundler()
	if err == nil {
		t.Cleanup(b.close)
	} else if b != nil || !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOSYS) {
		t.Fatal(err)
	}
	return b
}

// TestDiscardInABatch: what a closed client still sends is read, too, and must not take the place of what is to be written.
func TestDiscardInABatch(t *testing.T) {
	l := newStill(t)
	m, far := l.member(t, nil)
	over, farOver := l.member(t, nil)
	unix.Shutdown(farOver[backendSide], unix.SHUT_RDWR)
	l.batch([]unix.EpollEvent{over.event(backendSide, unix.EPOLLIN|unix.EPOLLHUP)})
	if over.state != discarding {
		t.Fatalf("state %d", over.state)
	}
	unix.Write(far[clientSide], []byte("command"))
	unix.Write(farOver[clientSide], []byte("into the void"))
	l.batch([]unix.EpollEvent{m.event(clientSide, unix.EPOLLIN), over.event(clientSide, unix.EPOLLIN)})
	b := make([]byte, 100)
	if n, _ := unix.Read(far[backendSide], b); string(b[:n]) != "command" {
		t.Errorf("the backend got %q", b[:n])
	}
}

func TestBundler(t *testing.T) {
	b := aBundler(t)
	if b == nil {
		return
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	// More rounds than the queues are long.
	for round := range 5 {
		var parcels []parcel
		for i := range maxParcels {
			fd := int32(pair[0])
			if i%8 == 7 {
				fd = 1 << 20
			}
			parcels = append(parcels, parcel{fd: fd, b: []byte{byte(round), byte(i)}})
		}
		b.send(parcels)
		in := make([]byte, 10)
		for i := range parcels {
			p := &parcels[i]
			if i%8 == 7 {
				if p.n != 0 || p.errno != unix.EBADF {
					t.Errorf("parcel %d to nowhere: %d bytes, %v", i, p.n, p.errno)
				}
				continue
			}
			n, _ := unix.Read(pair[1], in)
			if p.n != 2 || p.errno != 0 || !bytes.Equal(in[:n], p.b) {
				t.Errorf("parcel %d: %d bytes, %v; received %v", i, p.n, p.errno, in[:n])
			}
		}
	}
}

// TestKernelTakesOnlyAPart: what the kernel does not come to is to be tried again, and is not left in the queue.
func TestKernelTakesOnlyAPart(t *testing.T) {
	b := aBundler(t)
	if b == nil {
		return
	}
	fd := b.fd
	b.fd = -1 // the kernel takes nothing
	parcels := make([]parcel, 3)
	for i := range parcels {
		parcels[i] = parcel{fd: 1 << 20, b: []byte("x")}
	}
	b.send(parcels)
	for _, p := range parcels {
		if p.n != 0 || p.errno != unix.EAGAIN {
			t.Errorf("%d bytes, %v", p.n, p.errno)
		}
	}
	b.fd = fd
	b.send(parcels[:1])
	if parcels[0].errno != unix.EBADF || *b.head != *b.tail {
		t.Errorf("%v; the queue holds %d", parcels[0].errno, *b.tail-*b.head)
	}
}
