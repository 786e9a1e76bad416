package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is what is said of all that was seen.
type Report struct {
	Observing bool    `json:"observing"` // strategy observe is in force
	Seconds   float64 `json:"seconds"`   // since it was first
	Sessions  int64   `json:"sessions"`  // those that have run a statement
	Busy      Took    `json:"busy"`      // all their statements

	Assumptions Assumptions `json:"assumptions"`
	Notes       []string    `json:"notes"` // what the figures rest on, in plain words

	Saved    float64  `json:"saved"`    // seconds per second of waiting: what the advised strategies would save, before the proxy's own cost
	Cost     float64  `json:"cost"`     // likewise, of the proxy: one hop for each statement of all sessions
	Sentence string   `json:"sentence"` // about all together
	Shapes   []Advice `json:"shapes"`   // the most time in CREATE and DROP first
	More     int64    `json:"more"`     // shapes beyond those that are listed

	Unread map[string]int64 `json:"unread,omitempty"` // CREATEs of no known shape, by reason
}

// MaxShapes bounds the shapes of a report.
const MaxShapes = 200

// New makes a report of what was counted. Shapes and what depends on them are filled in.
func New(r Report, shapes []Counts) Report {
	list := make([]Advice, 0, len(shapes))
	for _, c := range shapes {
		v := Advise(c, r.Assumptions)
		list = append(list, v)
		if e := v.chosen(); e != nil && r.Busy.Seconds > 0 {
			r.Saved += e.Saved * float64(v.Cycles) / r.Busy.Seconds
		}
	}
	slices.SortFunc(list, func(a, b Advice) int {
		return cmp.Or(cmp.Compare(b.ddlSeconds(), a.ddlSeconds()), cmp.Compare(a.Shape, b.Shape))
	})
	if len(list) > MaxShapes {
		r.More = int64(len(list) - MaxShapes)
		list = list[:MaxShapes]
	}
	r.Shapes = list
	if r.Busy.Seconds > 0 {
		r.Cost = r.Assumptions.Hop * float64(r.Busy.Count) / r.Busy.Seconds
	}
	r.Sentence = r.sentence()
	r.Notes = r.notes()
	return r
}

func (v *Advice) ddlSeconds() float64 { return v.Create.Seconds + v.Drop.Seconds + v.Spare.Seconds }

// chosen is the estimate of the strategy that is advised, or nil.
func (v *Advice) chosen() *Estimate {
	switch {
	case v.Choice == keep:
		return v.AsKept
	case v.Choice == innodb && v.AsInnoDB != nil:
		return v.AsInnoDB
	case v.Choice == innodb:
		return v.AsKept
	}
	return nil
}

func (r *Report) sentence() string {
	switch {
	case r.Sessions == 0:
		return "no session was observed"
	case len(r.Shapes) == 0:
		return "no temporary table was seen"
	case r.Saved <= 0:
		return fmt.Sprintf("no gain to expect; the proxy itself costs these sessions %s of the time they wait", percent(r.Cost))
	case r.Saved <= r.Cost:
		return fmt.Sprintf("not worth it for all sessions together: about %s of the time they wait would be saved, and %s is what the proxy itself costs; "+
			"send it only the sessions that use temporary tables much", percent(r.Saved), percent(r.Cost))
	}
	return fmt.Sprintf("worth a trial: about %s of the time that all sessions wait would be saved, less %s that the proxy itself costs", percent(r.Saved), percent(r.Cost))
}

func (r *Report) notes() []string {
	hop := "What the proxy itself costs could not be measured and is not counted."
	switch r.Assumptions.HopBy {
	case ByStatements:
		hop = fmt.Sprintf("Each statement is taken to be %s slower through the proxy, as statements of the monitor account were just now.", duration(r.Assumptions.Hop))
	case ByEcho:
		hop = fmt.Sprintf("Each statement is taken to be %s slower through the proxy: an estimate from how long bytes took just now over loopback. "+
			"With a monitor account (backend.monitor.user) it is measured.", duration(r.Assumptions.Hop))
	}
	list := []string{
		hop,
		"What it takes to empty a table is not known before it is tried: it is taken to be a fixed part of CREATE and DROP, by engine, as measured on " +
			"MySQL 9.7 and MariaDB 10.11. The client waits for as much of it as is not over when its next statement comes.",
		"Whether the statements between CREATE and DROP are faster or slower in InnoDB is not known before a trial.",
		"What would be reused, given back or left to the server was found by going through each session's statements as strategy innodb does, without acting.",
	}
	if n := r.Unread["multi"]; n > 0 {
		list = append(list, fmt.Sprintf("%s packets of several statements with CREATE or DROP among them were not looked into.", number(float64(n))))
	}
	return list
}

// maxShapeText bounds what is printed of a shape in the table.
const maxShapeText = 46

// Text is the report for people.
func (r *Report) Text() string {
	var b strings.Builder
	if r.Sessions == 0 && !r.Observing {
		return "Nothing was observed: set rewrite.strategy to observe.\n"
	}
	fmt.Fprintf(&b, "Observed for %s: %s sessions, %s statements.\n", age(r.Seconds), number(float64(r.Sessions)), number(float64(r.Busy.Count)))
	if !r.Observing {
		b.WriteString("Strategy observe is not in force any more.\n")
	}
	if len(r.Shapes) > 0 {
		b.WriteString("\n")
		r.table(&b)
		b.WriteString("\n")
		for i := range r.Shapes {
			fill(&b, fmt.Sprintf("%2d  ", i+1), r.Shapes[i].Sentence)
		}
		if r.More > 0 {
			fmt.Fprintf(&b, "    and %s more shapes\n", number(float64(r.More)))
		}
	}
	b.WriteString("\n")
	fill(&b, "", "All together: "+r.Sentence+".")
	b.WriteString("\n")
	for _, n := range r.Notes {
		fill(&b, "- ", n)
	}
	return b.String()
}

func (r *Report) table(b *strings.Builder) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\t\tper\tCREATE\t\tof all\tin trans-\trows\tstate-\tgains up\twould be\testimated\t")
	fmt.Fprintln(w, "\tcycles\tsession\t+ DROP\tnames\ttime\tactions\tper cycle\tments\tto\treused\tgain/cycle\t  shape")
	for i := range r.Shapes {
		v := &r.Shapes[i]
		gain, even := "-", "-"
		e := v.chosen()
		if e == nil {
			e = v.best()
		}
		if e != nil && per(float64(v.Reuses), v.Cycles) >= often {
			gain, even = duration(e.Gain), number(v.BreakEven)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", i+1, number(float64(v.Cycles)), number(v.PerSession),
			duration(v.Create.mean()+v.Drop.mean()), number(float64(v.Names)), percent(v.DDL), percent(per(float64(v.Transactions), v.Cycles)),
			number(per(float64(v.Rows), v.Cycles)), number(v.Statements), even, percent(per(float64(v.Reuses), v.Cycles)), gain, shorten(v.Shape))
	}
	w.Flush()
}

// age writes seconds in hours, minutes and seconds.
func age(seconds float64) string {
	s := int64(seconds + 0.5)
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	}
	return fmt.Sprintf("%d h %d min", s/3600, s%3600/60)
}

// width is how long lines of text are.
const width = 120

// fill writes a text in lines behind a mark.
func fill(b *strings.Builder, mark, text string) {
	b.WriteString(mark)
	at := 0
	for i, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case i == 0:
		case at+1+n > width-len(mark):
			b.WriteString("\n" + strings.Repeat(" ", len(mark)))
			at = 0
		default:
			b.WriteString(" ")
			at++
		}
		b.WriteString(word)
		at += n
	}
	b.WriteString("\n")
}

// shorten cuts the middle out of a shape: its engine stands at the end.
func shorten(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	runes := []rune(s)
	if len(runes) <= maxShapeText {
		return s
	}
	half := maxShapeText/2 - 1
	return string(runes[:half]) + "…" + string(runes[len(runes)-half:])
}
