package replay

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
)

// entry is what came of one record in one run.
type entry struct {
	Session      uint64 `json:"s"`
	Verb         string `json:"v"`
	Handle       string `json:"h,omitempty"` // of a prepared statement
	Text         string `json:"t,omitempty"`
	Capabilities uint32 `json:"c,omitempty"`
	Told         string `json:"o,omitempty"` // instead of a reply
	Raw          []byte `json:"-"`
}

// spool keeps entries in a file that has no name any more.
type spool struct {
	file  *os.File
	out   *bufio.Writer
	at    int64
	index []int64 // where an ordinal's entry is, plus 1
	err   error
	mu    sync.Mutex
}

func newSpool() (*spool, error) {
	f, err := os.CreateTemp("", "tmpproxy-replay-")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name())
	return &spool{file: f, out: bufio.NewWriterSize(f, 256<<10)}, nil
}

func (s *spool) close() { s.file.Close() }

func (s *spool) put(ordinal int, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.index) <= ordinal {
		s.index = append(s.index, 0)
	}
	head, err := json.Marshal(e)
	if err != nil {
		s.err = err
		return
	}
	s.index[ordinal] = s.at + 1
	var sizes [16]byte
	binary.LittleEndian.PutUint64(sizes[:], uint64(len(head)))
	binary.LittleEndian.PutUint64(sizes[8:], uint64(len(e.Raw)))
	for _, b := range [][]byte{sizes[:], head, e.Raw} {
		n, err := s.out.Write(b)
		s.at += int64(n)
		if err != nil && s.err == nil {
			s.err = fmt.Errorf("keep replies: %w", err)
		}
	}
}

func (s *spool) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.out.Flush(); err != nil && s.err == nil {
		s.err = fmt.Errorf("keep replies: %w", err)
	}
}

// get returns an ordinal's entry; nil when there is none.
func (s *spool) get(ordinal int) (*entry, error) {
	if s.err != nil {
		return nil, s.err
	}
	if ordinal >= len(s.index) || s.index[ordinal] == 0 {
		return nil, nil
	}
	at := s.index[ordinal] - 1
	var sizes [16]byte
	if _, err := s.file.ReadAt(sizes[:], at); err != nil {
		return nil, err
	}
	head := binary.LittleEndian.Uint64(sizes[:])
	b := make([]byte, head+binary.LittleEndian.Uint64(sizes[8:]))
	if _, err := s.file.ReadAt(b, at+int64(len(sizes))); err != nil && err != io.EOF {
		return nil, err
	}
	e := new(entry)
	if err := json.Unmarshal(b[:head], e); err != nil {
		return nil, err
	}
	e.Raw = b[head:]
	return e, nil
}
