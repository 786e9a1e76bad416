package trial

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// saved returns a file with n records, the nth with n cycles, and where each ends.
func saved(t *testing.T, n int) (content []byte, ends []int) {
	t.Helper()
	dir := t.TempDir()
	a, err := createArchive(dir, "x")
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	arms, _ := ParseArms([]string{"native", "keep"})
	r := newResults(Spec{Name: "x", Arms: arms, Assignment: AssignRandom}, time.Unix(1_700_000_000, 0).UTC())
	for range n {
		r.Overall.Cells[0].Cycles++
		r.Overall.Cells[0].Times.add(0.01)
		if err := a.save(r); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(dir, "x.trial"))
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, int(info.Size()))
	}
	if content, err = os.ReadFile(filepath.Join(dir, "x.trial")); err != nil {
		t.Fatal(err)
	}
	return content, ends
}

// A file that ends anywhere, or has a wrong byte anywhere, gives what was stored before that place.
func TestTornFile(t *testing.T) {
	content, ends := saved(t, 3)
	whole := func(at int) (n int64) {
		for n < int64(len(ends)) && ends[n] <= at {
			n++
		}
		return n
	}
	cycles := func(b []byte) int64 {
		r := read(bytes.NewReader(b))
		if r == nil {
			return 0
		}
		return r.Overall.Cells[0].Cycles
	}
	for at := range len(content) + 1 {
		if got := cycles(content[:at]); got != whole(at) {
			t.Fatalf("cut at %d of %v: %d records, want %d", at, ends, got, whole(at))
		}
	}
	for at := range content {
		broken := bytes.Clone(content)
		broken[at] ^= 0x41
		if got := cycles(broken); got != whole(at) {
			t.Fatalf("broken at %d of %v: %d records, want %d", at, ends, got, whole(at))
		}
	}
	if got := cycles(append(bytes.Clone(content), bytes.Repeat([]byte{0}, 4096)...)); got != 3 {
		t.Errorf("with zeroes behind: %d records", got)
	}
}

// A file that was torn is gone on with; none grows without bound.
func TestArchiveGrowth(t *testing.T) {
	dir := t.TempDir()
	arms, _ := ParseArms([]string{"native", "keep"})
	r := newResults(Spec{Name: "x", Arms: arms, Assignment: AssignRandom}, time.Unix(1_700_000_000, 0).UTC())
	path := filepath.Join(dir, "x.trial")
	most := int64(0)
	for run := range 3 {
		a, err := openArchive(dir, "x")
		if err != nil {
			t.Fatal(err)
		}
		for range 600 {
			r.Overall.Cells[0].Cycles++
			r.Overall.Shape = string(bytes.Repeat([]byte{'s'}, 4000))
			if err := a.save(r); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			most = max(most, info.Size())
		}
		a.close()
		info, _ := os.Stat(path)
		if err := os.Truncate(path, info.Size()-7); err != nil {
			t.Fatal(err)
		}
		got, err := latest(dir)
		if err != nil || got == nil || got.Overall.Cells[0].Cycles < int64(600*(run+1)-1) {
			t.Fatalf("run %d: %+v, %v", run, got, err)
		}
	}
	if most > minFile+20_000 {
		t.Errorf("the file grew to %d bytes", most)
	}
	if _, err := createArchive(dir, "x"); err != nil {
		t.Fatal(err)
	}
	if got, err := latest(dir); err != nil || got != nil {
		t.Errorf("the trial that was replaced is still there: %v, %v", got, err)
	}
	if _, err := os.Stat(path + ".old"); err != nil {
		t.Error(err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 {
		t.Errorf("left in the directory: %v", entries)
	}
}

// What cannot be stored is an error, and is stored as soon as it can be.
func TestArchiveFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	b := newBench(t, dir)
	b.start(t, AssignRandom, "native", "keep")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Start(Spec{Name: "y", Arms: b.Results().Spec.Arms}); err == nil || b.Running() {
		t.Errorf("a trial started that cannot be kept: %v", err)
	}
}
