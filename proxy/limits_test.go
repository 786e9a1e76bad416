package proxy

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

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

// TestIdles asks in every state of a session whether it waits for its client.
func TestIdles(t *testing.T) {
	s := newFakeServer(testCaps)
	r := loggedIn(t, s, session.StrategyInnoDB, 1<<20)
	half := func(b []byte) ([]byte, []byte) { return b[:len(b)/2], b[len(b)/2:] }
	expect := func(what string, want bool) {
		t.Helper()
		if got := r.c.idles(); got != want {
			t.Errorf("%s: waits for the client: %v, want %v", what, got, want)
		}
	}
	toClient := func(b []byte) { r.feedChunk(backendSide, b) }
	toBackend := func(b []byte) { r.feedChunk(clientSide, b) }
	answers := func() (b []byte) { b, s.out = s.out, nil; return b }

	expect("logged in", true)
	first, rest := half(query("SELECT 1"))
	toBackend(first)
	expect("half a command", true)
	toBackend(rest)
	expect("a command", false)
	first, rest = half(answers())
	toClient(first)
	expect("half a reply", false)
	toClient(rest)
	expect("a reply", true)
	toBackend(query("LOAD DATA LOCAL INFILE 'f' INTO TABLE x"))
	toClient(answers())
	expect("a file is asked for, which the server waits for", false)
	toBackend(append(pack(2, []byte("line 1\n")), pack(3, nil)...))
	toClient(answers())
	expect("the file is answered", true)
	toBackend(query(strings.Repeat("SELECT 'long' ", 8000)))
	toClient(answers())
	expect("a long command is answered", true)
	toBackend(changeTo("user"))
	expect("a change of user", false)
	toClient(answers())
	expect("the client's turn in it", true)
	toBackend(pack(2, []byte("answer2")))
	expect("the server's turn in it", false)
	toClient(answers())
	expect("changed", true)
	toBackend(query(create))
	expect("a CREATE is analysed", false)
	r.settle()
	for range 3 { // the second cycle is the first that parks
		for _, sql := range []string{insert, drop, create} {
			r.client(query(sql))
		}
	}
	r.client(query(insert))
	toBackend(query(drop))
	expect("DROP is answered here", true)
	r.call(func() { r.c.background(r.now, &r.out) })
	expect("a statement of ours is out", false)
	r.settle()
	expect("it is answered", true)
	if s.log[len(s.log)-1] != `COM_QUERY "TRUNCATE TABLE `+"`db`.`t`"+` /* tmpproxy */"` && !strings.Contains(s.log[len(s.log)-1], "TRUNCATE") {
		t.Errorf("the server heard %q", s.log)
	}

	toBackend(command(wire.ComBinlogDump, "xxxxxxxxxx"))
	toClient([]byte("events"))
	expect("a stream of events", false)

	r = newTalk(t, s, session.StrategyNative, 1<<20)
	r.c.becomeRaw("", &r.out)
	toBackend([]byte("asked"))
	expect("raw, the client has spoken", false)
	toClient([]byte("answered"))
	expect("raw, the server has spoken", true)
}

// TestExpire has idle sessions end in each form.
func TestExpire(t *testing.T) {
	const text = "The client was disconnected by the server because of inactivity. See limits.idle_timeout of tmpproxy for configuring this behavior."
	quit := packetOf(0, []byte{byte(wire.ComQuit)})
	said := wire.AppendErr(nil, 0, testCaps, wire.Err{Code: 4031, State: "HY000", Message: text})
	frame := func(b []byte) []byte { return append([]byte{byte(len(b)), 0, 0, 0, 0, 0, 0}, b...) }
	for _, test := range []struct {
		name            string
		state           func(r *talk)
		client, backend []byte
	}{
		{"MySQL", func(*talk) {}, said, quit},
		{"MariaDB", func(r *talk) { r.c.mariadb = true }, nil, quit},
		{"half a command", func(r *talk) { r.client(query("SELECT 1")[:7]) }, said, quit},
		{"the backend is going", func(r *talk) { r.c.goodbye = true }, nil, quit},
		{"raw", func(r *talk) { r.c.becomeRaw("", &r.out) }, nil, nil},
		{"change of user", func(r *talk) { r.client(changeTo("other")) }, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := loggedIn(t, newFakeServer(testCaps), session.StrategyInnoDB, 1<<20)
			test.state(r)
			var out output
			r.c.expire(1, &out)
			var heard [2][]byte
			for _, run := range out.runs {
				heard[run.to] = append(heard[run.to], run.b...)
			}
			if !out.end || !bytes.Equal(heard[clientSide], test.client) || !bytes.Equal(heard[backendSide], test.backend) {
				t.Errorf("ended %v, the client got %q, the backend %q", out.end, heard[clientSide], heard[backendSide])
			}
		})
	}
	t.Run("compressed", func(t *testing.T) {
		r := loggedIn(t, newFakeServer(testCaps), session.StrategyInnoDB, 1<<20)
		r.c.packed = newPacking(wire.ClientCompress, 0)
		var out output
		r.c.expire(1, &out)
		var heard [2][]byte
		for _, run := range out.runs {
			heard[run.to] = append(heard[run.to], run.b...)
		}
		if !bytes.Equal(heard[backendSide], frame(quit)) {
			t.Errorf("the backend got %q", heard[backendSide])
		}
		var got []byte
		if err := newPacking(wire.ClientCompress, 0).unpack(backendSide, heard[clientSide], anyRoom, func(b []byte) { got = append(got, b...) }); err != nil || !bytes.Equal(got, said) {
			t.Errorf("the client got %q, %v", got, err)
		}
	})
}

// TestIdleTimeout has the drivers end what is idle, and nothing else: neither a session that waits for its backend, nor one whose client
// reads slowly. The limit comes while they are there.
func TestIdleTimeout(t *testing.T) {
	eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
		o.script = func() *script {
			return &script{idle: true, on: func(s *script, in input, from side, b []byte, out *output) bool {
				if in == inputReceived {
					s.idle = string(b) != "statement"
				}
				return false
			}}
		}
		r := newRig(t, o)
		busy, its := r.session()
		busy.send("statement")
		its.expect("statement")
		slow, source := r.session()
		big := pattern(32 << 20)
		go source.send(big)
		r.eventually("a client is stalled", func() bool { return r.queued(clientSide) > 0 })
		var idle, backends []*end
		for range 3 {
			client, backend := r.session()
			idle, backends = append(idle, client), append(backends, backend)
		}
		r.server.SetLimits(Limits{IdleTimeout: 400 * time.Millisecond}) // a client that reads slowly may be put to sleep
		for i, client := range idle {
			client.expectEnd("")
			client.Close()
			backends[i].expectEnd("")
			backends[i].Close()
		}
		if n := r.server.Counts().IdleTimeouts.Load(); n != 3 {
			t.Errorf("%d timeouts were counted", n)
		}
		busy.send("still there")
		its.expect("still there")
		slow.expectEnd(big) // and then the end
		busy.expectEnd("")
		for _, e := range []*end{busy, its, slow, source} {
			e.Close()
		}
		r.empty()
		if n := r.server.Counts().IdleTimeouts.Load(); n != 5 {
			t.Errorf("%d timeouts were counted", n)
		}
		r.server.SetLimits(Limits{})
	})
}

// TestLeftoversTimeOut has a client that takes nothing keep what is left for it at its session's end no longer than it may be idle.
func TestLeftoversTimeOut(t *testing.T) {
	eachDriver(t, "tcp unix", func(t *testing.T, o rigOptions) {
		o.script = func() *script {
			return &script{on: func(s *script, in input, from side, b []byte, out *output) bool {
				if in == inputReceived {
					out.to(clientSide, []byte(pattern(maxQueue)))
					out.end = true
				}
				return in == inputReceived
			}}
		}
		r := newRig(t, o)
		stalled, backend := r.session()
		stalled.SetReadBuffer(64 << 10)
		backend.send("the end")
		backend.expectGone()
		r.eventually("something is left", func() bool { return r.queued(clientSide) > 0 })
		r.server.SetLimits(Limits{IdleTimeout: 30 * time.Millisecond})
		r.empty()
		if n, err := io.Copy(io.Discard, stalled.socket); n >= maxQueue {
			t.Errorf("%d bytes of %d came, %v", n, maxQueue, err)
		}
	})
}
