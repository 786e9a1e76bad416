package proxy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tmpproxy/session"
	"tmpproxy/wire"
)

// checkStitched follows the reply to one multi-statement packet as a client does: one after the other, numbered without a gap.
func checkStitched(t *testing.T, got []byte, from byte) wire.Result {
	t.Helper()
	var tracker wire.ResponseTracker
	tracker.Begin(wire.ComQuery, testCaps, false)
	n, done := tracker.Scan(got)
	if !done || n != len(got) {
		t.Fatalf("the reply of %d bytes ends after %d, done %v", len(got), n, done)
	}
	for b := got; len(b) > 0; {
		p, rest, ok := packet(b)
		if !ok {
			t.Fatal("a packet is cut off")
		}
		if _, seq := wire.Header(p); seq != from {
			t.Fatalf("packet %d where %d was due", seq, from)
		}
		from++
		b = rest
	}
	return tracker.Result()
}

// Temporary-table DDL in a multi-statement packet is run and cached like any other; the client sees one reply.
func TestBatchEverySplit(t *testing.T) {
	text := strings.Join([]string{create, insert, "SELECT * FROM t", "SELECT TWO", drop}, "; ") + ";"
	var first string
	for i, chunk := range []int{1 << 20, 1, 2, 3, 4, 5, 9, 33} {
		s := newFakeServer(testCaps)
		r := loggedIn(t, s, session.StrategyKeep, chunk)
		var all bytes.Buffer
		for cycle := range 4 {
			mark := len(s.log)
			got := r.client(query(text))
			all.Write(got)
			if result := checkStitched(t, got, 1); result.Results != 6 || result.Kind != wire.ResultOK {
				t.Fatalf("chunk %d, cycle %d: %d results, the last of kind %d", chunk, cycle, result.Results, result.Kind)
			}
			// A result follows every result set of this one, as both EOFs of each say.
			for p, rest, ok := packet(got); ok; p, rest, ok = packet(rest) {
				if eof := p[wire.HeaderSize:]; len(eof) == 5 && eof[0] == 0xFE && eof[3]&byte(wire.StatusMoreResultsExists) == 0 {
					t.Fatalf("chunk %d, cycle %d: an EOF says that no result follows", chunk, cycle)
				}
			}
			q := queries(s, mark)
			if cycle >= 2 && (slices.Contains(q, create) || slices.Contains(q, drop)) {
				t.Errorf("cycle %d: the server got %q", cycle, q)
			}
			if !slices.Contains(q, insert) {
				t.Errorf("cycle %d: the server got %q", cycle, q)
			}
		}
		if i == 0 {
			first = all.String()
		} else if all.String() != first {
			t.Errorf("chunk %d: another reply", chunk)
		}
	}
}

func TestBatchEnds(t *testing.T) {
	for _, chunk := range []int{1, 3, 1 << 20} {
		t.Run(fmt.Sprint(chunk), func(t *testing.T) {
			s := newFakeServer(testCaps)
			r := loggedIn(t, s, session.StrategyKeep, chunk)

			s.answer = func(sql string) []byte {
				if strings.HasPrefix(sql, "UPDATE") {
					return fail(1146, "no such table")
				}
				return nil
			}
			mark := len(s.log)
			got := r.client(query("SELECT 1; UPDATE nosuch SET a = 1; " + drop))
			if result := checkStitched(t, got, 1); result.Kind != wire.ResultErr || result.Code != 1146 {
				t.Errorf("kind %d, code %d", result.Kind, result.Code)
			}
			if q := queries(s, mark); len(q) != 2 || !strings.HasPrefix(q[1], "UPDATE") {
				t.Errorf("the server got %q", q)
			}

			// The session goes on.
			if result := checkStitched(t, r.client(query("SELECT 1")), 1); result.Results != 1 {
				t.Errorf("%d results", result.Results)
			}

			// A file in the middle: its packets are numbered for the server as the server counts.
			mark = len(s.log)
			got = r.client(query("SELECT 1; LOAD DATA LOCAL INFILE 'f' INTO TABLE x; " + create))
			last, _, _ := packet(got[len(got)-9:])
			if !bytes.HasSuffix(last, []byte("\xfbfile")) {
				t.Fatalf("no request for the file: %q", got)
			}
			_, seq := wire.Header(last)
			got = r.client(append(pack(seq+1, []byte("line 1\n")), pack(seq+2, nil)...))
			if result := checkStitched(t, got, seq+3); result.Results != 2 {
				t.Errorf("%d results behind the file", result.Results)
			}
			if log := strings.Join(s.log[mark:], "\n"); strings.Contains(log, "out of order") || !strings.Contains(log, "file line 1") {
				t.Errorf("the server got %s", log)
			}

			// With multi-statements switched off the server judges the text as a whole.
			r.client(command(wire.ComSetOption, "\x01\x00"))
			mark = len(s.log)
			r.client(query("SELECT 1; " + drop))
			if q := queries(s, mark); q[len(q)-1] != "SELECT 1; "+drop {
				t.Errorf("the server got %q", q)
			}
			r.client(command(wire.ComSetOption, "\x00\x00"))
			mark = len(s.log)
			r.client(query("SELECT 1; " + create))
			if q := queries(s, mark); !slices.Contains(q, "SELECT 1") {
				t.Errorf("the server got %q", q)
			}
		})
	}
}
