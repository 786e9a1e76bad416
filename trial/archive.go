package trial

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	suffix     = ".trial"
	headerSize = 8       // length and checksum of a record, little-endian
	maxRecord  = 1 << 28 // bytes
	// growth is how many times the size of the last record a file may have before it is written anew, with that record alone.
	growth  = 4
	minFile = 256 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// archive is the file of a trial's results. Each save appends a record with all of them, and waits until it is on the disk; the last one
// that is whole counts. So a crash in the middle of a save loses what came since the save before. Not safe for concurrent use.
type archive struct {
	path string
	file *os.File
	size int64
}

// createArchive makes the file of a new trial. One of that name stays as NAME.trial.old.
func createArchive(dir, name string) (*archive, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("keep the trial: %w", err)
	}
	a := &archive{path: filepath.Join(dir, name+suffix)}
	if err := os.Rename(a.path, a.path+".old"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("keep the trial: %w", err)
	}
	return a, nil
}

// openArchive opens the file of a trial to append to it.
func openArchive(dir, name string) (*archive, error) {
	return &archive{path: filepath.Join(dir, name+suffix)}, nil // the next save writes it anew, without what may be torn
}

// save stores results.
func (s *archive) save(r *Results) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("keep the trial: %w", err)
	}
	record := binary.LittleEndian.AppendUint32(nil, uint32(len(text)))
	record = binary.LittleEndian.AppendUint32(record, crc32.Checksum(text, castagnoli))
	record = append(record, text...)
	if s.file == nil || s.size > max(minFile, growth*int64(len(record))) {
		return s.rewrite(record)
	}
	if _, err := s.file.WriteAt(record, s.size); err != nil { // behind the last whole one, whatever a failed save has left
		return fmt.Errorf("keep the trial: %w", err)
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("keep the trial: %w", err)
	}
	s.size += int64(len(record))
	return nil
}

// rewrite puts a file with one record in the place of the present one.
func (s *archive) rewrite(record []byte) error {
	fail := func(f *os.File, err error) error {
		if f != nil {
			f.Close()
			os.Remove(f.Name())
		}
		return fmt.Errorf("keep the trial: %w", err)
	}
	f, err := os.OpenFile(s.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return fail(nil, err)
	}
	if _, err := f.Write(record); err != nil {
		return fail(f, err)
	}
	if err := f.Sync(); err != nil {
		return fail(f, err)
	}
	if err := os.Rename(f.Name(), s.path); err != nil {
		return fail(f, err)
	}
	if s.file != nil {
		s.file.Close()
	}
	s.file, s.size = f, int64(len(record))
	return syncDirectory(filepath.Dir(s.path))
}

// syncDirectory puts the names in a directory on the disk.
func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("keep the trial: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("keep the trial: %w", err)
	}
	return nil
}

func (s *archive) close() error {
	if s.file == nil {
		return nil
	}
	if err := s.file.Close(); err != nil {
		return fmt.Errorf("keep the trial: %w", err)
	}
	s.file = nil
	return nil
}

// read returns the last whole record of a trial's file; nil if there is none.
func read(r io.Reader) *Results {
	var last *Results
	var header [headerSize]byte
	for {
		if _, err := io.ReadFull(r, header[:]); err != nil {
			return last
		}
		length, sum := binary.LittleEndian.Uint32(header[:]), binary.LittleEndian.Uint32(header[4:])
		if length > maxRecord {
			return last
		}
		text, err := io.ReadAll(io.LimitReader(r, int64(length)))
		if err != nil || len(text) != int(length) || crc32.Checksum(text, castagnoli) != sum {
			return last
		}
		var results Results
		if json.Unmarshal(text, &results) != nil || results.Check() != nil {
			return last
		}
		last = &results
	}
}

// latest returns the results of the trial that runs, or else of the one that was started last; nil if there is none.
func latest(dir string) (*Results, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the trials: %w", err)
	}
	var best *Results
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read the trials: %w", err)
		}
		r := read(f)
		f.Close()
		switch {
		case r == nil || r.Spec.Name+suffix != e.Name():
		case best == nil, r.State == StateRunning && best.State != StateRunning, r.State == best.State && r.Started.After(best.Started):
			best = r
		}
	}
	return best, nil
}
