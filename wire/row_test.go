package wire

import (
	"bytes"
	"strings"
	"testing"
)

// The definition is found in every recorded reply to SHOW CREATE TABLE, and in no other.
func TestShowCreate(t *testing.T) {
	found := 0
	for _, r := range recordings(t) {
		got := ShowCreate(r.stream)
		if !strings.Contains(r.name, "show-create-table") {
			if got != nil {
				t.Errorf("%s: %q", r.name, got)
			}
			continue
		}
		found++
		if !bytes.HasPrefix(got, []byte("CREATE TEMPORARY TABLE `t` (\n")) || !bytes.Contains(got, []byte("\n) ENGINE=MEMORY")) {
			t.Errorf("%s: %q", r.name, got)
		}
		for n := range len(r.stream) {
			if cut := ShowCreate(r.stream[:n]); cut != nil && !bytes.Equal(cut, got) {
				t.Errorf("%s: %d bytes: %q", r.name, n, cut)
			}
		}
	}
	if found < 2 {
		t.Errorf("%d recorded replies to SHOW CREATE TABLE", found)
	}
}
