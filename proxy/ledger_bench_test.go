package proxy

import (
	"fmt"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"

	"tmpproxy/session"
)

// BenchmarkLedger is what the ledger is asked and told in one cycle of a cached table, by sessions whose tables have shapes of their own.
func BenchmarkLedger(b *testing.B) {
	l := newLedger(newJournal(zap.NewNop()), newMetrics(), monotonic)
	var n atomic.Int32
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		key := session.Key{Schema: "db", Name: fmt.Sprint("report_", n.Add(1))}
		shape := key.Name + " (id INT NOT NULL AUTO_INCREMENT, name VARCHAR(100) NOT NULL DEFAULT '', amount DECIMAL(10,2), PRIMARY KEY (id)) ENGINE = MEMORY"
		for p.Next() {
			l.Shape(shape)
			l.Name(key)
			l.Note(session.Note{Kind: session.NoteCycle, Shape: shape, Name: key})
			l.Note(session.Note{Kind: session.NoteReuse, Shape: shape, Name: key})
			l.answered(session.ClassCreate, shape, 1000, byUs, 0)
			l.answered(session.ClassUse, shape, 1000, byUs, 0)
			l.answered(session.ClassUse, shape, 1000, byUs, 0)
			l.Shape(shape)
			l.Name(key)
			l.Note(session.Note{Kind: session.NotePark, Shape: shape, Name: key})
			l.answered(session.ClassDrop, shape, 1000, byUs, 0)
			l.measure(session.ClassReset, shape, 1000)
		}
	})
}
