package proxy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"tmpproxy/session"
	"tmpproxy/wire"
)

// loginAs is a login that the fakeServer takes.
func loginAs(caps wire.Capability, user string) []byte {
	p := login(caps, "db")[wire.HeaderSize:]
	return pack(1, bytes.Replace(p, []byte("user\x00"), []byte(user+"\x00"), 1))
}

func changeTo(user string) []byte {
	return command(wire.ComChangeUser, user+"\x00\x03pwddb\x00\x2d\x00mysql_native_password\x00")
}

// tooManyOf is what a client is told whose user has as many sessions as it may.
func tooManyOf(seq byte, user string) []byte {
	return wire.AppendErr(nil, seq, testCaps, wire.Err{Code: 1203, State: "42000",
		Message: "User " + user + " already has more than 'max_user_connections' active connections (limits.max_user_sessions of tmpproxy)"})
}

// TestMaxUserSessions has sessions of some users come, change and go, against what the counts have to be.
func TestMaxUserSessions(t *testing.T) {
	for _, chunk := range []int{1, 2, 7, 1 << 20} {
		t.Run(fmt.Sprint(chunk), func(t *testing.T) {
			sh := newShared(testPolicy(session.StrategyInnoDB), newJournal(zap.NewNop()))
			var refused []string
			sh.refused = func(user, _ string) { refused = append(refused, user) }
			limit := func(n int) { sh.limits.Store(&Limits{MaxUserSessions: n}) }
			counts := func(want ...string) {
				t.Helper()
				var got []string
				for user, n := range sh.users.counts {
					got = append(got, fmt.Sprint(user, " ", n))
				}
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("counted are %q, want %q", got, want)
				}
			}
			begin := func(user string) (r *talk, got []byte) {
				r = newTalkOf(t, sh, newFakeServer(testCaps), chunk)
				r.settle()
				r.client(loginAs(testCaps, user))
				return r, r.client(pack(3, []byte("answer")))
			}
			quits := func(r *talk) bool { return strings.HasPrefix(r.s.log[len(r.s.log)-1], wire.ComQuit.String()) }

			limit(2)
			first, got := begin("ann")
			if !bytes.HasSuffix(got, first.s.ok(5)) {
				t.Errorf("the first: %q", got)
			}
			second, _ := begin("ann")
			silent := newTalkOf(t, sh, newFakeServer(testCaps), chunk) // nobody as long as the backend has not let it in
			silent.settle()
			silent.client(loginAs(testCaps, "bob"))
			counts("ann 2")
			third, got := begin("ann")
			if want := append(pack(4, []byte{1, 3}), tooManyOf(5, "ann")...); !bytes.Equal(got, want) || !third.ended || !quits(third) {
				t.Errorf("the third: %q, ended %v, the backend heard %q", got, third.ended, third.s.log)
			}
			third.c.gone()
			other, _ := begin("bob")
			counts("ann 2", "bob 1")

			// A change of user counts once the backend has agreed to it.
			other.client(changeTo("ann"))
			counts("ann 2", "bob 1")
			got = other.client(pack(2, []byte("answer2")))
			if want := append(pack(3, []byte{1, 3}), tooManyOf(4, "ann")...); !bytes.Equal(got, want) || !other.ended || !quits(other) {
				t.Errorf("change to one that is full: %q, ended %v, the backend heard %q", got, other.ended, other.s.log)
			}
			other.c.gone()
			counts("ann 2")
			change := func(r *talk, user string) {
				t.Helper()
				r.client(changeTo(user))
				if got := r.client(pack(2, []byte("answer2"))); !bytes.HasSuffix(got, r.s.ok(4)) {
					t.Errorf("change to %s: %q", user, got)
				}
			}
			change(first, "ann") // the count is itself
			counts("ann 2")
			change(first, "bob")
			counts("ann 1", "bob 1")

			limit(1) // who is there stays
			change(second, "ann")
			if r, _ := begin("bob"); !r.ended {
				t.Error("let in above the new limit")
			}
			limit(0)
			last, _ := begin("bob")
			counts("ann 1", "bob 2")
			for _, r := range []*talk{first, second, last} {
				r.c.gone()
			}
			counts()
			if want := []string{"ann", "ann", "bob"}; !slices.Equal(refused, want) {
				t.Errorf("refused were %q, want %q", refused, want)
			}
		})
	}
}

// TestMaxUserSessionsCompressed has the backend of a refused client hear the end in the form that was negotiated, the client its refusal in
// the form of a login's.
func TestMaxUserSessionsCompressed(t *testing.T) {
	sh := newShared(testPolicy(session.StrategyInnoDB), newJournal(zap.NewNop()))
	sh.limits.Store(&Limits{MaxUserSessions: 1})
	sh.users.enter("user", 0)
	s := newFakeServer(testCaps | wire.ClientCompress)
	r := newTalkOf(t, sh, s, 1<<20)
	r.settle()
	r.client(login(testCaps|wire.ClientCompress, "db"))
	s.receive(pack(3, []byte("answer")))
	var out output
	r.c.received(backendSide, s.out, 1, &out)
	var heard [2][]byte
	for _, run := range out.runs {
		heard[run.to] = append(heard[run.to], run.b...)
	}
	if want := append(pack(4, []byte{1, 3}), tooManyOf(5, "user")...); !bytes.Equal(heard[clientSide], want) || !out.end {
		t.Errorf("the client got %q, ended %v", heard[clientSide], out.end)
	}
	if want := append([]byte{5, 0, 0, 0, 0, 0, 0}, packetOf(0, []byte{byte(wire.ComQuit)})...); !bytes.Equal(heard[backendSide], want) {
		t.Errorf("the backend heard %q, want %q", heard[backendSide], want)
	}
}
