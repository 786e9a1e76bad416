package proxy

import (
	"fmt"
	"strings"
	"testing"

	"tmpproxy/rewrite"
	"tmpproxy/session"
	"tmpproxy/wire"
)

// notes is a recording that keeps all it is told.
type notes struct {
	list  []string
	bytes []byte
}

func (n *notes) Session(c Client) Recording {
	n.list = append(n.list, fmt.Sprintf("session %s %s %s %d joined=%v", c.User, c.Schema, c.Address, c.Collation, c.Joined))
	return n
}

func (n *notes) Command(c wire.Command, _ rewrite.Mode) {
	n.list = append(n.list, c.String())
	n.bytes = nil
}
func (n *notes) Bytes(b []byte)              { n.bytes = append(n.bytes, b...) }
func (n *notes) Account(user, schema string) { n.list = append(n.list, "account "+user+" "+schema) }
func (n *notes) Lost()                       { n.list = append(n.list, "lost") }
func (n *notes) End()                        { n.list = append(n.list, "end") }
func (n *notes) Done(code uint16, id uint32, params int) {
	text := string(n.bytes)
	if len(text) > 200 {
		text = fmt.Sprintf("%d bytes", len(text))
	}
	n.list = append(n.list, fmt.Sprintf("%q %d %d %d", text, code, id, params))
}

// TestRecording has a recorder told of everything that a client sends but of what authenticates it, however it is cut, and nothing
// of it changes what is relayed.
func TestRecording(t *testing.T) {
	var first string
	for _, strategy := range []session.Strategy{session.StrategyNative, session.StrategyInnoDB} {
		for _, chunk := range []int{1 << 20, 1, 3, 11, 1000} {
			script := relayScript()
			plain := newTalk(t, newFakeServer(testCaps), strategy, chunk)
			plain.settle()
			s := newFakeServer(testCaps)
			r := newTalk(t, s, strategy, chunk)
			n := new(notes)
			var recorder Recorder = n
			r.c.sh.recorder.Store(&recorder)
			r.c.tap.client = "10.0.0.1:5"
			r.settle()
			for _, p := range script {
				if want, got := plain.client(p), r.client(p); string(want) != string(got) {
					t.Fatalf("chunk %d: %.40q is answered %.200q, without a recorder %.200q", chunk, p, got, want)
				}
			}
			r.c.recordEnd()
			got := strings.Join(n.list, "\n")
			if strings.Contains(got, "pwd") || strings.Contains(got, "answer") {
				t.Fatalf("chunk %d: what authenticates is recorded:\n%s", chunk, got)
			}
			if first == "" {
				first = got
				for _, want := range []string{
					"session user db 10.0.0.1:5 45 joined=false\nCOM_QUERY\n", `SELECT 1" 0 0 0`, `BAD" 1064 0 0`, "COM_STMT_PREPARE\n", `SELECT ?" 0 1 1`,
					`\x18\x01\x00\x00\x00\x00\x00abc" 0 0 0`, "CREATE TEMPORARY TABLE t (a INT) ENGINE=MEMORY\" 0", "COM_CHANGE_USER\naccount user db\n\"\" 0 0 0\nCOM_RESET",
					`"112005 bytes" 0 0 0`, "COM_QUIT\n", "LOAD DATA LOCAL INFILE 'f' INTO TABLE x\" 0 0 0\n",
				} {
					if !strings.Contains(got, want) {
						t.Errorf("%q is missing in\n%s", want, got)
					}
				}
				if !strings.HasSuffix(got, "\nend") {
					t.Errorf("no end in\n%s", got)
				}
			} else if got != first {
				t.Fatalf("strategy %v, chunk %d: recorded\n%s\nfirst\n%s", strategy, chunk, got, first)
			}
		}
	}
}

// TestRecordingJoins has a recording begin and end while a session goes on: not in a transaction.
func TestRecordingJoins(t *testing.T) {
	s := newFakeServer(testCaps)
	r := loggedIn(t, s, session.StrategyInnoDB, 1<<20)
	r.client(query("SELECT 1"))
	n := new(notes)
	var recorder Recorder = n
	s.status |= wire.StatusInTrans
	r.client(query("BEGIN"))
	r.c.sh.recorder.Store(&recorder)
	r.client(query("SELECT 2"))
	s.status &^= wire.StatusInTrans
	r.client(query("COMMIT"))
	if len(n.list) > 0 {
		t.Errorf("recorded in a transaction: %q", n.list)
	}
	r.client(query("SELECT 3"))
	r.c.sh.recorder.Store(nil)
	r.client(query("SELECT 4"))
	if got := strings.Join(n.list, "\n"); !strings.Contains(got, "joined=true\nCOM_QUERY\n") || !strings.Contains(got, "SELECT 3") || strings.Contains(got, "SELECT 4") {
		t.Errorf("recorded %s", got)
	}
}

// TestRecordingBatch has a packet of several statements recorded as one, though it is run one by one.
func TestRecordingBatch(t *testing.T) {
	s := newFakeServer(testCaps)
	n := new(notes)
	var recorder Recorder = n
	r := newTalk(t, s, session.StrategyInnoDB, 7)
	r.c.sh.recorder.Store(&recorder)
	r.settle()
	r.client(login(testCaps|wire.ClientMultiStatements, "db"))
	r.client(pack(3, []byte("answer")))
	r.c.multi = true
	r.client(query(create + "; " + insert + "; " + drop))
	if got := strings.Join(n.list, "\n"); strings.Count(got, "COM_QUERY") != 1 || !strings.Contains(got, insert+"; "+drop) {
		t.Errorf("recorded %s", got)
	}
}
