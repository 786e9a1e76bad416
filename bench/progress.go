package bench

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress tells how far the run is: a line that is written over and over on a terminal, elsewhere one line per cell.
type progress struct {
	w        io.Writer
	terminal bool
	began    time.Time
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w, began: time.Now()}
	if file, ok := w.(*os.File); ok {
		info, err := file.Stat()
		term := os.Getenv("TERM")
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0 && term != "" && term != "dumb"
	}
	return p
}

// begin announces the i-th of n cells.
func (p *progress) begin(i, n int, what string) {
	line := fmt.Sprintf("%3d%%  %s  %s", 100*i/n, time.Since(p.began).Round(time.Second), what)
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K"+line)
	} else {
		fmt.Fprintln(p.w, line)
	}
}

// clear takes the line from the terminal.
func (p *progress) clear() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
