package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// progress tells how far a run of known length is: as a bar that is drawn over and over on a terminal, elsewhere as one
// line per stage. One goroutine uses it.
type progress struct {
	w        io.Writer
	terminal bool
	total    int // steps
	done     int
	stage    string
}

func newProgress(file *os.File, total int) *progress {
	return &progress{w: file, terminal: isTerminal(file), total: total}
}

// isTerminal tells whether file is one that can go back to the start of a line.
func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	term := os.Getenv("TERM")
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && term != "" && term != "dumb"
}

const barWidth = 30

// begin announces the next step: the stage it belongs to, and what it does.
func (p *progress) begin(stage, what string) {
	if p.terminal {
		filled := barWidth * p.done / p.total
		fmt.Fprintf(p.w, "\r\x1b[K[%s%s] %3d%%  %s: %s", strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled),
			100*p.done/p.total, stage, what)
	} else if stage != p.stage {
		fmt.Fprintf(p.w, "%3d%%  %s\n", 100*p.done/p.total, stage)
	}
	p.stage = stage
}

// end ends the step that begin announced.
func (p *progress) end() { p.done++ }

// clear takes the bar from the terminal.
func (p *progress) clear() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
