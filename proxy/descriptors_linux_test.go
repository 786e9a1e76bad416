package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// A process that lacks descriptors cannot be this one, which has the clients too: the server runs in a child.
const (
	childDriver  = "TMPPROXY_TEST_DRIVER"
	childBackend = "TMPPROXY_TEST_BACKEND"
)

func TestDescriptorShortage(t *testing.T) {
	for _, driver := range []string{"loop", "pump"} {
		t.Run(driver, func(t *testing.T) {
			r := &rig{TB: t}
			r.backend = r.listen("tcp")
			child := exec.Command(os.Args[0], "-test.run=^TestChildOfDescriptorShortage$")
			child.Env = append(os.Environ(), childDriver+"="+driver, childBackend+"="+r.backend.Addr().String())
			child.Stderr = os.Stderr
			in, err := child.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			pipe, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			out := bufio.NewScanner(pipe)
			ask := func(question string) string {
				t.Helper()
				fmt.Fprintln(in, question)
				if !out.Scan() {
					t.Fatalf("the child says nothing: %v", out.Err())
				}
				return out.Text()
			}
			address := ask("address")
			go func() { // the backend greets and says what it hears
				for {
					conn, err := r.backend.Accept()
					if err != nil {
						return
					}
					go func() {
						io.WriteString(conn, "hello")
						io.Copy(conn, conn)
						conn.Close()
					}()
				}
			}()
			client := func() *end { return r.end(net.Dial("tcp", address)) }
			echo := func(c *end) {
				c.send("ping")
				c.expect("ping")
			}

			old := client()
			old.expect("hello")
			echo(old)
			if got := ask("use all descriptors"); got != "done" {
				t.Fatal(got)
			}
			for range 5 {
				c := client()
				c.expectEnd(tooMany)
				c.Close()
			}
			echo(old) // the session that was there goes on
			// With some descriptors, but not enough, every client gets an answer.
			for n := 1; n < 5; n++ {
				if got := ask("release one"); got != "done" {
					t.Fatal(got)
				}
				c := client()
				b := make([]byte, len("hello"))
				if _, err := io.ReadFull(c, b); err != nil {
					t.Fatalf("%d descriptors: %v", n, err)
				}
				if string(b) != "hello" && b[4] != 0xFF {
					t.Errorf("%d descriptors: %q is neither a greeting nor an error", n, b)
				}
				c.Close()
			}
			if got := ask("release all"); got != "done" {
				t.Fatal(got)
			}
			var fresh *end
			r.eventually("there is room again", func() bool {
				fresh = client()
				b := make([]byte, len("hello"))
				_, err := io.ReadFull(fresh, b)
				return err == nil && string(b) == "hello"
			})
			echo(fresh)
			for _, c := range []*end{old, fresh} {
				c.shut()
				c.expectEnd("")
				c.Close()
			}
			in.Close()
			rest, _ := io.ReadAll(pipe)
			if err := child.Wait(); err != nil {
				t.Errorf("child: %v\n%s", err, rest)
			}
		})
	}
}

// TestChildOfDescriptorShortage is the server of TestDescriptorShortage.
func TestChildOfDescriptorShortage(t *testing.T) {
	driver := os.Getenv(childDriver)
	if driver == "" {
		return
	}
	s, err := NewServer(zap.NewNop(), Options{Listen: []string{"127.0.0.1:0"}, Backends: []string{os.Getenv(childBackend)}, Driver: driver, Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.newConversation = newRawConversation
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	var fillers []*os.File
	questions := bufio.NewScanner(os.Stdin)
	for questions.Scan() {
		answer := "done"
		switch questions.Text() {
		case "address":
			answer = s.Addresses()[0].String()
		case "use all descriptors":
			f, err := os.Open(os.DevNull)
			if err != nil {
				t.Fatal(err)
			}
			limit := unix.Rlimit{Cur: uint64(f.Fd()) + 8, Max: uint64(f.Fd()) + 8}
			f.Close()
			if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
				answer = err.Error()
			}
			for {
				f, err := os.Open(os.DevNull)
				if err != nil {
					break
				}
				fillers = append(fillers, f)
			}
		case "release one":
			fillers[0].Close()
			fillers = fillers[1:]
		case "release all":
			for _, f := range fillers {
				f.Close()
			}
		}
		fmt.Println(answer)
	}
	cancel()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	if s.Counts().Shortages.Load() == 0 {
		t.Error("no shortage was counted")
	}
}
