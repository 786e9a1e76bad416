package proxy

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/zap"

	"tmpproxy/session"
	"tmpproxy/wire"
)

// exchange is one command and its reply as a real server gave it: see wire/testdata/replies.
type exchange struct {
	name           string
	sent           []byte // the client's bytes, the file of LOCAL INFILE included
	before, behind []byte // the server's; behind is what follows the file
}

// recording is what was recorded over one connection.
type recording struct {
	name      string
	mariadb   bool
	caps      wire.Capability
	exchanges []exchange
}

func recordings(t testing.TB) []recording {
	t.Helper()
	files, err := filepath.Glob("../wire/testdata/replies/*.hex")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d recorded replies, %v", len(files), err)
	}
	byCaps := map[string]int{}
	var all []recording
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var command, caps, extended uint64
		var e exchange
		e.name = strings.TrimSuffix(filepath.Base(file), ".hex")
		infile := false
		for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			switch {
			case i == 0:
				if _, err := fmt.Sscanf(line, "# command=0x%x caps=0x%x mariadb_caps=0x%x", &command, &caps, &extended); err != nil {
					t.Fatalf("%s: %v", file, err)
				}
			case strings.HasPrefix(line, "# sent="):
				e.sent = fromHex(t, strings.TrimPrefix(line, "# sent="))
			case strings.HasPrefix(line, "#"):
				infile = true
			case infile:
				e.behind = append(e.behind, fromHex(t, line)...)
			default:
				e.before = append(e.before, fromHex(t, line)...)
			}
		}
		server, _, _ := strings.Cut(e.name, "-")
		key := fmt.Sprintf("%s-%#x-%#x", server, caps, extended)
		at, ok := byCaps[key]
		if !ok {
			at = len(all)
			byCaps[key] = at
			all = append(all, recording{name: key, mariadb: server != "mysql", caps: wire.Capability(caps) | wire.Capability(extended)<<32})
		}
		all[at].exchanges = append(all[at].exchanges, e)
	}
	return all
}

func fromHex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// greeting is what a server of the recording says first, as it leaves the proxy.
func (r *recording) greeting() []byte {
	version := "9.7.4"
	if r.mariadb {
		version = "10.11.18-MariaDB"
	}
	p := append([]byte{10}, version+"\x00"...)
	p = binary.LittleEndian.AppendUint32(p, 7)
	p = append(p, "12345678\x00"...)
	p = binary.LittleEndian.AppendUint16(p, uint16(r.caps))
	p = append(p, 45, 2, 0)
	p = binary.LittleEndian.AppendUint16(p, uint16(r.caps>>16))
	p = append(p, 21, 0, 0, 0, 0, 0, 0)
	p = binary.LittleEndian.AppendUint32(p, uint32(r.caps>>32))
	p = append(p, "123456789012\x00mysql_native_password\x00"...)
	return pack(0, p)
}

func (r *recording) login() []byte {
	p := binary.LittleEndian.AppendUint32(nil, uint32(r.caps))
	p = append(p, 0, 0, 0, 1, 45)
	p = append(p, make([]byte, 19)...)
	p = binary.LittleEndian.AppendUint32(p, uint32(r.caps>>32))
	p = append(p, "user\x00\x00"...)
	p = append(p, "recorded\x00mysql_native_password\x00\x00"...)
	return pack(1, p)
}

func (r *recording) ok() []byte {
	return wire.AppendOK(nil, 2, r.caps, wire.OK{Status: wire.StatusAutocommit})
}

// steps are the bytes of the whole session in the order in which they were caused.
func (r *recording) steps() []step {
	list := []step{{backendSide, r.greeting()}, {clientSide, r.login()}, {backendSide, r.ok()}}
	for _, e := range r.exchanges {
		if e.behind == nil {
			list = append(list, turns(e)...)
			continue
		}
		command, file, _ := packet(e.sent)
		list = append(list, step{clientSide, command}, step{backendSide, e.before}, step{clientSide, file}, step{backendSide, e.behind})
	}
	return list
}

// turns orders the packets of an exchange: the client's beyond the first answer the server's authentication turns.
func turns(e exchange) []step {
	first, rest, _ := packet(e.sent)
	if len(rest) == 0 || wire.Command(first[wire.HeaderSize]) != wire.ComChangeUser {
		return []step{{clientSide, e.sent}, {backendSide, e.before}}
	}
	list := []step{{clientSide, first}}
	sent, got := rest, e.before
	for len(sent) > 0 {
		var p []byte
		p, got, _ = packet(got)
		list = append(list, step{backendSide, p})
		p, sent, _ = packet(sent)
		list = append(list, step{clientSide, p})
	}
	return append(list, step{backendSide, got})
}

type step struct {
	from side
	b    []byte
}

// Every recorded reply passes untouched, both directions cut at every byte, and the idle conversation keeps nothing.
func TestRecordedEverySplit(t *testing.T) {
	for _, rec := range recordings(t) {
		for _, strategy := range []session.Strategy{session.StrategyNative, session.StrategyKeep} {
			for _, chunk := range []int{1, 2, 3, 4, 5, 7, 16, 1000, 1 << 20} {
				t.Run(fmt.Sprintf("%s/%d/%d", rec.name, strategy, chunk), func(t *testing.T) {
					sh := newShared(testPolicy(strategy), newJournal(zap.NewNop()))
					c := newConversation(sh)
					var out output
					now := int64(1)
					got := [2][]byte{}
					call := func(f func()) {
						out.reset()
						now++
						f()
						for _, r := range out.runs {
							got[r.to] = append(got[r.to], r.b...)
						}
						for out.work != nil {
							w := out.work
							out.reset()
							w()
							c.resumed(now, &out)
							for _, r := range out.runs {
								got[r.to] = append(got[r.to], r.b...)
							}
						}
						if out.end {
							t.Fatal("the session was ended")
						}
					}
					want := [2][]byte{}
					for i, s := range rec.steps() {
						// Temporary-table DDL is replaced under a strategy; its answers are tested elsewhere.
						want[s.from.other()] = append(want[s.from.other()], s.b...)
						for b := s.b; len(b) > 0; {
							n := min(chunk, len(b))
							piece := bytes.Clone(b[:n])
							call(func() { c.received(s.from, piece, now, &out) })
							b = b[n:]
						}
						for side := range got {
							if !bytes.Equal(got[side], want[side]) {
								t.Fatalf("step %d (%q): the %v got %d bytes, want %d, first difference at %d", i, s.b[:min(len(s.b), 60)], side,
									len(got[side]), len(want[side]), difference(got[side], want[side]))
							}
						}
					}
					if c.phase != phaseCommand || c.pending != nil || c.cmd != nil || c.held != nil || c.hs != nil || c.tracker != nil {
						t.Errorf("not idle and empty at the end: phase %d", c.phase)
					}
				})
			}
		}
	}
}

// The same through sockets: event loops and goroutines, the bytes written one at a time or in pieces.
func TestRecordedThroughDrivers(t *testing.T) {
	drivers := []string{"pump"}
	if runtime.GOOS == "linux" {
		drivers = append(drivers, "loop")
	}
	for _, driver := range drivers {
		for _, rec := range recordings(t) {
			for _, chunk := range []int{1, 11, 1 << 20} {
				t.Run(fmt.Sprintf("%s/%s/%d", driver, rec.name, chunk), func(t *testing.T) {
					r := newRig(t, rigOptions{driver: driver, server: func(s *Server) {
						s.newConversation = func() *conversation { return newConversation(s.shared) }
					}})
					ends := [2]*end{clientSide: r.client()}
					ends[backendSide] = r.end(r.backend.Accept())
					for i, s := range rec.steps() {
						go func() {
							for b := s.b; len(b) > 0; {
								n := min(chunk, len(b))
								if _, err := ends[s.from].Write(b[:n]); err != nil {
									return // the reader tells
								}
								b = b[n:]
							}
						}()
						got := make([]byte, len(s.b))
						if _, err := io.ReadFull(ends[s.from.other()], got); err != nil || !bytes.Equal(got, s.b) {
							t.Fatalf("step %d (%q): %v, first difference at %d of %d", i, s.b[:min(len(s.b), 60)], err, difference(got, s.b), len(s.b))
						}
					}
				})
			}
		}
	}
}
