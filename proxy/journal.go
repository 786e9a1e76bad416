package proxy

import (
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// journalSize bounds the log records that wait to be written.
const journalSize = 1024

// journal writes log records in a goroutine of its own, so that no event loop waits for a log. Records that find it full are
// dropped and counted. Safe for concurrent use.
type journal struct {
	log     *zap.Logger
	records chan record
	dropped atomic.Uint64
	quit    chan struct{}
	done    chan struct{}
}

type record struct {
	entry  *zapcore.CheckedEntry
	fields []zap.Field
}

func newJournal(log *zap.Logger) *journal {
	return &journal{log: log.WithOptions(zap.AddCallerSkip(1)), records: make(chan record, journalSize), quit: make(chan struct{}), done: make(chan struct{})}
}

// write never blocks. The fields must not refer to memory that changes.
func (j *journal) write(level zapcore.Level, message string, fields ...zap.Field) {
	entry := j.log.Check(level, message)
	if entry == nil {
		return
	}
	select {
	case j.records <- record{entry, fields}:
	default:
		j.dropped.Add(1)
	}
}

// run writes records until stop is called, and then those that are there.
func (j *journal) run() {
	defer close(j.done)
	for {
		select {
		case r := <-j.records:
			r.entry.Write(r.fields...)
		case <-j.quit:
			for {
				select {
				case r := <-j.records:
					r.entry.Write(r.fields...)
				default:
					return
				}
			}
		}
	}
}

// stop ends run and returns when it has ended.
func (j *journal) stop() {
	close(j.quit)
	<-j.done
}
