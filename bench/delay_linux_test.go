package bench

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

func through(t *testing.T, target string, roundTrip time.Duration) *net.TCPConn {
	t.Helper()
	r, err := newRelay(target, roundTrip)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
		if len(r.halves) > 0 {
			t.Errorf("%d directions left over", len(r.halves))
		}
	})
	conn, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// TestRelayBytes sends more than the relay holds at once both ways at the same time, while neither side reads at first, and
// ends one direction after the other.
func TestRelayBytes(t *testing.T) {
	data := make([]byte, 3*mostHeld)
	source := rand.NewChaCha8([32]byte{1})
	if _, err := source.Read(data); err != nil {
		t.Fatal(err)
	}
	received := make(chan []byte, 1)
	target := serve(t, func(conn net.Conn) {
		if _, err := conn.Write(data); err != nil {
			t.Error(err)
		}
		got, err := io.ReadAll(conn) // up to the client's end, when this side can still write
		if err != nil {
			t.Error(err)
		}
		received <- got
		if _, err := conn.Write([]byte("end")); err != nil {
			t.Error(err)
		}
	})
	conn := through(t, target, time.Millisecond)
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(data)
		sent <- err
	}()
	down := make([]byte, len(data))
	if _, err := io.ReadFull(conn, down); err != nil {
		t.Fatal(err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(conn)
	if err != nil || string(rest) != "end" {
		t.Errorf("after the client's end: %q, %v", rest, err)
	}
	if !bytes.Equal(down, data) || !bytes.Equal(<-received, data) {
		t.Error("other bytes arrived")
	}
}

// TestRelayDelay checks that nothing passes early and that chunks that follow each other are not delayed one after the
// other.
func TestRelayDelay(t *testing.T) {
	target := serve(t, func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
	const roundTrip = 20 * time.Millisecond
	conn := through(t, target, roundTrip)
	for try := 1; ; try++ {
		begin := time.Now()
		const chunks = 50
		for range chunks {
			if _, err := conn.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.ReadFull(conn, make([]byte, chunks)); err != nil {
			t.Fatal(err)
		}
		took := time.Since(begin)
		if took < roundTrip {
			t.Errorf("a round trip took %v", took)
		}
		if took < 10*roundTrip { // one after the other they take 25 times as long at least
			return
		}
		if try == 20 { // the machine has other things to do, but not always
			t.Fatalf("50 chunks took %v: they wait for each other", took)
		}
	}
}

// TestRelayEnds has the ends of either side arrive at the other.
func TestRelayEnds(t *testing.T) {
	gone := make(chan error, 1)
	target := serve(t, func(conn net.Conn) {
		_, err := io.ReadAll(conn)
		gone <- err
	})
	through(t, target, time.Millisecond).Close()
	if err := <-gone; err != nil {
		t.Errorf("the client's end: %v", err)
	}
	conn := through(t, serve(t, func(net.Conn) {}), time.Millisecond)
	if rest, err := io.ReadAll(conn); err != nil || len(rest) > 0 {
		t.Errorf("the server's end: %q, %v", rest, err)
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	conn = through(t, closed.Addr().String(), time.Millisecond)
	if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("a server that is not there: %d bytes, %v", n, err)
	}
}

func TestServeEcho(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- ServeEcho(l) }()
	one, err := dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer one.close()
	other, err := dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	for range 3 {
		for _, c := range []*client{one, other} {
			if err := c.echo(); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
