package proxy

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"tmpproxy/session"
	"tmpproxy/wire"
)

// anyRoom is for tests in which room is no matter.
func anyRoom(int) bool { return true }

// mostHeld is what one session without compression holds at most while its peers take nothing: a read for either side, and the room that a
// queue grows by.
const mostHeld = 4 * readSize

// TestBufferedIsBounded has many sessions whose clients, or backends, take nothing: what is held is a constant for each of them, all of it is
// counted, new clients are refused above the limit and let in below it, and those that are there go on.
func TestBufferedIsBounded(t *testing.T) {
	const sessions, limit = 16, 256 << 10
	eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
		o.change = func(o *Options) { o.MaxBuffered = limit }
		r := newRig(t, o)
		data := pattern(16 << 20)
		held := &r.server.shared.buffered
		var ends [sessions][2]*end // who sends, who receives
		for i := range ends {
			from, to := r.session()
			if i%2 == 1 {
				from, to = to, from
			}
			ends[i] = [2]*end{from, to}
		}
		for _, e := range ends {
			go func() { e[0].send(data); e[0].CloseWrite() }()
		}
		var last int64
		since := time.Now()
		r.eventually("they are stalled", func() bool { // the system's own buffers grow for a while
			n := held.Load()
			if n > sessions*mostHeld {
				t.Fatalf("%d bytes are held for %d sessions", n, sessions)
			}
			if n < limit || n != last {
				last, since = n, time.Now()
			}
			return time.Since(since) > 200*time.Millisecond
		})
		refused := r.server.Counts().RefusedBuffers.Load()
		client := r.client()
		b, err := io.ReadAll(client)
		if err != nil || !strings.Contains(string(b), fmt.Sprintf("Connection closed. Global connection memory limit %d bytes exceeded. Consumed ", limit)) {
			t.Errorf("a client above the limit got %q, %v", b, err)
		}
		client.Close()
		if n := r.server.Counts().RefusedBuffers.Load() - refused; n != 1 {
			t.Errorf("%d refusals were counted", n)
		}
		if n := held.Load(); n < limit || n > sessions*mostHeld {
			t.Errorf("%d bytes are held for %d sessions", n, sessions)
		}
		for _, e := range ends {
			e[1].expectEnd(data)
			e[1].Close()
			e[0].Close()
		}
		r.empty()
		client, backend := r.session()
		client.send("ping")
		backend.expect("ping")
		client.Close()
		backend.expectEnd("")
		backend.Close()
		r.empty()
	})
}

// incompressible makes nothing shorter, so that it takes no time.
type incompressible struct{ algorithm }

func (incompressible) compress(dst, b []byte) []byte { return append(dst, b...) }

// TestSlowReaderOfFrames has a compressed session go on whose client does not take a frame of nearly 16 MiB.
func TestSlowReaderOfFrames(t *testing.T) {
	eachDriver(t, "tcp", func(t *testing.T, o rigOptions) {
		o.server = func(s *Server) {
			raw := s.newConversation
			s.newConversation = func() *conversation {
				c := raw()
				c.packed = &packing{algorithm: incompressible{}}
				return c
			}
		}
		r := newRig(t, o)
		client, backend := r.session()
		content := pattern(wire.MaxPayload)
		go func() {
			for seq := range byte(2) {
				head := make([]byte, frameHeader)
				wire.PutHeader(head, len(content), seq)
				backend.send(string(head) + content)
			}
			backend.CloseWrite()
		}()
		r.eventually("a frame is queued", func() bool { return r.server.shared.buffered.Load() > maxQueue })
		time.Sleep(50 * time.Millisecond)
		for range 2 {
			head, got := make([]byte, frameHeader), make([]byte, len(content))
			if _, err := io.ReadFull(client, head); err != nil {
				t.Fatal(err)
			}
			if length, _ := wire.Header(head); length != len(content) || head[4]|head[5]|head[6] != 0 {
				t.Fatalf("the frame begins with %v", head)
			}
			if _, err := io.ReadFull(client, got); err != nil {
				t.Fatal(err)
			}
			if string(got) != content {
				t.Errorf("%d bytes came that are not those sent", len(got))
			}
		}
		client.expectEnd("")
		client.Close()
		backend.Close()
		r.empty()
	})
}

// TestFramesNeedRoom has compressed frames announce more than there is room for.
func TestFramesNeedRoom(t *testing.T) {
	announce := func(length, size int) []byte {
		b := make([]byte, frameHeader, frameHeader+length)
		wire.PutHeader(b, length, 0)
		b[4], b[5], b[6] = byte(size), byte(size>>8), byte(size>>16)
		return b
	}
	talk := func(t *testing.T, limit int) (*talk, *output) {
		r := loggedIn(t, newFakeServer(testCaps), session.StrategyInnoDB, 1<<20)
		r.c.sh.limits.Store(&Limits{MaxBuffered: limit})
		r.c.packed = newPacking(wire.ClientCompress, 0)
		return r, new(output)
	}
	t.Run("no room for a client's", func(t *testing.T) {
		for _, head := range [][]byte{announce(2<<20, 0), announce(1000, 8<<20)} {
			r, out := talk(t, 1<<20)
			r.c.received(clientSide, head, 1, out)
			var got []byte
			for _, run := range out.runs {
				if run.to != clientSide {
					t.Errorf("the backend hears %q", run.b)
				}
				if err := newPacking(wire.ClientCompress, 0).unpack(backendSide, run.b, anyRoom, func(b []byte) { got = append(got, b...) }); err != nil {
					t.Error(err)
				}
			}
			if !out.end || !bytes.Contains(got, []byte("Connection closed. Global connection memory limit 1048576 bytes exceeded.")) {
				t.Errorf("ended %v, the client got %q", out.end, got)
			}
		}
	})
	t.Run("no room for a backend's", func(t *testing.T) {
		r, out := talk(t, 1<<20)
		r.c.received(backendSide, announce(2<<20, 0), 1, out)
		if !out.end || len(out.runs) > 0 {
			t.Errorf("ended %v with %d runs", out.end, len(out.runs))
		}
	})
	t.Run("room", func(t *testing.T) {
		r, out := talk(t, 3<<20)
		head := announce(2<<20, 0)
		r.c.received(clientSide, head, 1, out)
		r.c.account(0)
		if n := r.c.sh.buffered.Load(); out.end || n != frameHeader+2<<20 {
			t.Fatalf("ended %v, %d bytes are counted", out.end, n)
		}
		// Another session has no room beside it, and small frames need none.
		other, out := talk(t, 3<<20)
		other.c.sh = r.c.sh
		other.c.received(clientSide, announce(2<<20, 0), 1, out)
		if !out.end {
			t.Error("there is room for two")
		}
		small, out := talk(t, 3<<20)
		small.c.sh = r.c.sh
		small.c.received(clientSide, announce(10<<10, 20<<10), 1, out)
		if out.end {
			t.Error("there is no room for a small frame")
		}
		body := packetOf(0, append([]byte{byte(wire.ComQuery)}, bytes.Repeat([]byte{' '}, 2<<20-5)...))
		out.reset()
		r.c.received(clientSide, body, 1, out)
		r.c.account(0)
		if n := r.c.sh.buffered.Load(); out.end || n > mostHeld {
			t.Errorf("ended %v, %d bytes are counted behind the frame", out.end, n)
		}
		r.c.forget()
		if n := r.c.sh.buffered.Load(); n != 0 {
			t.Errorf("%d bytes are counted behind the session's end", n)
		}
	})
}
