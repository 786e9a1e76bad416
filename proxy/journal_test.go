package proxy

import (
	"fmt"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestJournalDropsWhatDoesNotFit(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	j := newJournal(zap.New(core))
	for i := range journalSize + 5 { // nobody writes yet, and still this returns
		j.write(zap.InfoLevel, fmt.Sprint(i), zap.Int("n", i))
		j.write(zap.DebugLevel, "not asked for")
	}
	go j.run()
	j.stop()
	if n := j.dropped.Load(); n != 5 {
		t.Errorf("%d records were counted as dropped, want 5", n)
	}
	all := logs.All()
	if len(all) != journalSize {
		t.Fatalf("%d records were written, want %d", len(all), journalSize)
	}
	for i, r := range all {
		if r.Message != fmt.Sprint(i) || r.ContextMap()["n"] != int64(i) {
			t.Fatalf("record %d: %v", i, r)
		}
	}
}
