package replay

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"

	"tmpproxy/testbed/rawclient"
	"tmpproxy/trial/judge"
	"tmpproxy/trial/record"
)

// Report is what a replay came to.
type Report struct {
	Server string      `json:"server"` // its version
	Input  Input       `json:"input"`
	Arms   []ArmReport `json:"arms"` // direct first
	// NotRepeatable are fields that differ between two direct runs, or whose values cannot be the same twice: they are not
	// compared.
	NotRepeatable []Group `json:"not_repeatable_groups"`
}

// ArmReport is what one arm came to.
type ArmReport struct {
	Name     string    `json:"name"`
	Latency  []Latency `json:"latency"`
	Groups   []Group   `json:"differences"` // those that are not on the list first
	Unlisted int       `json:"unlisted"`    // groups that are not
}

// Latency is the distribution of a class of statements, as the client saw it.
type Latency struct {
	Class  string        `json:"class"`
	Count  int           `json:"count"`
	Median time.Duration `json:"median_ns"`
	P95    time.Duration `json:"p95_ns"`
	Mean   time.Duration `json:"mean_ns"`
	Ratio  float64       `json:"ratio"` // of the means, to direct's; 0 if there is none
}

// Group is differences of one kind.
type Group struct {
	Name    string `json:"name"`              // of the kind on the list of what can be noticed; "" if it is none
	Follows string `json:"follows,omitempty"` // of the listed difference behind which the two sides were no longer in the same state
	Reason  string `json:"reason,omitempty"`
	Shape   string `json:"shape"`
	Field   string `json:"field"`
	Count   int    `json:"count"`
	Example string `json:"example"`
}

// Unlisted says how many groups of differences, in all arms, are not on the list of what can be noticed.
func (r *Report) Unlisted() int {
	n := 0
	for i := range r.Arms {
		n += r.Arms[i].Unlisted
	}
	return n
}

var (
	indices  = regexp.MustCompile(`\[\d+\]`)
	volatile = regexp.MustCompile(`(?i)\b(NOW|CURRENT_TIMESTAMP|SYSDATE|CURDATE|CURTIME|CURRENT_DATE|CURRENT_TIME|LOCALTIME|LOCALTIMESTAMP|UTC_DATE|UTC_TIME|` +
		`UTC_TIMESTAMP|UNIX_TIMESTAMP|UUID|UUID_SHORT|RAND|CONNECTION_ID|RANDOM_BYTES|SYS_GUID|PROCESSLIST|STATUS|STATS|PROFILES)\b`)
	inRows = regexp.MustCompile(`^result\[\]\.row|^packets$`)
)

// place is where in which statements a field is.
type place struct{ shape, field string }

// exchange makes an entry what a judge compares.
func (e *entry) exchange() (judge.Exchange, error) {
	x := judge.Exchange{Step: e.step(), Binary: e.Verb == record.Execute || e.Verb == record.Fetch || e.Verb == record.Bulk}
	if e.Told != "" {
		x.Failure = e.Told
		return x, nil
	}
	command := byte(mysql.COM_QUERY)
	switch e.Verb {
	case record.Prepare:
		command = mysql.COM_STMT_PREPARE
	case record.Fetch:
		command = mysql.COM_STMT_FETCH
	case record.FieldList:
		command = mysql.COM_FIELD_LIST
	}
	reply, err := rawclient.Parse(command, e.Capabilities, 0, e.Raw)
	if err != nil {
		return x, fmt.Errorf("read a reply to %.100q again: %w", e.Text, err)
	}
	if reply.Prepared != nil {
		reply.Prepared.ID = 0 // MariaDB goes on counting where the thread's last connection ended
	}
	x.Reply = reply
	return x, nil
}

// judgeAll compares all runs with the first.
func judgeAll(o *Options, runs []Arm, outcomes []*outcome) (*Report, error) {
	direct, again := outcomes[0], outcomes[len(outcomes)-1]
	r := &Report{Server: direct.version, Input: direct.input}
	unstable := map[place]bool{}
	groups, err := compareRuns(&Options{}, direct, again, runs[0], unstable, true)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		unstable[place{g.Shape, g.Field}] = true
	}
	r.NotRepeatable = groups
	for i, arm := range runs[:len(runs)-1] {
		a := ArmReport{Name: arm.Name, Latency: outcomes[i].latency.report(direct.latency)}
		if i > 0 {
			if a.Groups, err = compareRuns(o, direct, outcomes[i], arm, unstable, false); err != nil {
				return nil, err
			}
		}
		for _, g := range a.Groups {
			if g.Name == "" && g.Follows == "" {
				a.Unlisted++
			}
		}
		r.Arms = append(r.Arms, a)
	}
	return r, nil
}

// compareRuns groups the differences of two runs, but for those at unstable places.
func compareRuns(o *Options, direct, other *outcome, arm Arm, unstable map[place]bool, all bool) ([]Group, error) {
	j := judge.New(direct.flavour, arm.Strategy)
	byKey := map[Group]*Group{}
	ended := map[string]string{} // sessions that are no longer in the same state, and the difference that ended it
	gone := map[string]bool{}    // sessions that have ended on one side
	for ordinal := range max(len(direct.spool.index), len(other.spool.index)) {
		d, err := direct.spool.get(ordinal)
		if err != nil {
			return nil, err
		}
		p, err := other.spool.get(ordinal)
		if err != nil {
			return nil, err
		}
		if d == nil && p == nil {
			continue
		}
		if d == nil || p == nil { // one side could not run it
			first := d
			if d == nil {
				first = p
			}
			missing := &entry{Session: first.Session, Verb: first.Verb, Handle: first.Handle, Text: first.Text, Told: "not run, as the session had ended or its statement was not prepared"}
			if d == nil {
				d = missing
			} else {
				p = missing
			}
		}
		session := fmt.Sprint(d.Session)
		if d.Verb == "connect" {
			delete(ended, session)
			delete(gone, session)
		}
		if gone[session] || o.Applies != nil && !o.Applies(ordinal, arm.Name) {
			continue
		}
		dx, err := d.exchange()
		if err != nil {
			return nil, err
		}
		px := dx
		if d.Told != p.Told || !bytes.Equal(d.Raw, p.Raw) {
			if px, err = p.exchange(); err != nil {
				return nil, err
			}
			gone[session] = (d.Told != "") != (p.Told != "")
		}
		px.Step = dx.Step
		shape := d.shape()
		for _, f := range j.Findings(&dx, &px) {
			field := indices.ReplaceAllString(f.Path, "[]")
			if !all && (unstable[place{shape, field}] || volatile.MatchString(d.Text) && inRows.MatchString(field)) {
				continue
			}
			why := reason(f.Name)
			if onlySlow(&f) {
				f.Name = "query-was-slow"
			}
			if f.Name == "" && o.Listed != nil {
				d := f.Difference
				d.Strategy = arm.Name
				f.Name, why = o.Listed(ordinal, &d)
			}
			key := Group{Name: f.Name, Shape: shape, Field: field}
			if before, ok := ended[session]; ok && f.Name == "" {
				key.Follows = before
			}
			if f.Ends {
				if _, ok := ended[session]; !ok {
					ended[session] = f.Name
				}
			}
			g := byKey[key]
			if g == nil {
				g = new(Group)
				*g = key
				g.Reason = why
				g.Example = fmt.Sprintf("session %s, record %d: %s; directly %s, here %s", session, ordinal+1, f.Path, short(f.Direct), short(f.Proxied))
				byKey[key] = g
			}
			g.Count++
		}
	}
	var list []Group
	for _, g := range byKey {
		list = append(list, *g)
	}
	rank := func(g *Group) int {
		switch {
		case g.Name == "" && g.Follows == "":
			return 0
		case g.Name != "":
			return 1
		}
		return 2
	}
	slices.SortFunc(list, func(a, b Group) int {
		return cmp.Or(rank(&a)-rank(&b), strings.Compare(a.Name, b.Name), b.Count-a.Count, strings.Compare(a.Shape, b.Shape), strings.Compare(a.Field, b.Field))
	})
	return list, nil
}

// onlySlow says whether only the flag differs that a query was slow, which depends on the time alone.
func onlySlow(f *judge.Finding) bool {
	direct, err := strconv.ParseUint(f.Direct, 0, 16)
	other, err2 := strconv.ParseUint(f.Proxied, 0, 16)
	return err == nil && err2 == nil && strings.HasSuffix(f.Path, ".status") && direct^other == 0x0800
}

func (e *entry) shape() string {
	shape := record.Shape([]byte(e.Text), record.Lexical{})
	switch e.Verb {
	case record.Query, record.Execute, record.Bulk:
		return shape
	}
	return strings.TrimSpace("(" + e.Verb + ") " + shape)
}

func reason(name string) string {
	for i := range judge.Known {
		if judge.Known[i].Name == name {
			return judge.Known[i].Reason
		}
	}
	return ""
}

func short(s string) string {
	const most = 120
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// report makes the table of an arm.
func (l latencies) report(direct latencies) []Latency {
	var list []Latency
	for _, class := range classes {
		d := l[class]
		if d == nil {
			continue
		}
		x := Latency{Class: class, Count: d.n, Median: d.quantile(0.5), P95: d.quantile(0.95), Mean: d.sum / time.Duration(d.n)}
		if base := direct[class]; base != nil && base.sum > 0 {
			x.Ratio = float64(x.Mean) / (float64(base.sum) / float64(base.n))
		}
		list = append(list, x)
	}
	return list
}

// WriteText writes the report for people.
func (r *Report) WriteText(out io.Writer) error {
	var b strings.Builder
	in := &r.Input
	fmt.Fprintf(&b, "Server %s: %d sessions, %d statements and commands in each arm.\n", r.Server, in.Sessions, in.Statements)
	for _, note := range []struct {
		n    int
		text string
	}{
		{in.Joined, "sessions were there before the recording: what they had SET and prepared is not known"},
		{in.Omitted, "statements are not in the recording, as they may have held passwords"},
		{in.Missing, "commands are missing in the recording"},
		{in.Skipped, "commands could not be run: their statement was not prepared, or their session could not begin"},
		{in.Files, "LOCAL INFILE found empty files"},
		{in.Slow, "statements were not waited for any longer: the order of what came next may differ"},
	} {
		if note.n > 0 {
			fmt.Fprintf(&b, "  %d %s.\n", note.n, note.text)
		}
	}
	b.WriteString("\nTime that the client sees; x is the mean divided by direct's.\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "class\tarm\tcount\tmedian\t95 %\tmean\tx\t")
	for _, class := range classes {
		for i := range r.Arms {
			for _, l := range r.Arms[i].Latency {
				if l.Class == class {
					fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%.2f\t\n", class, r.Arms[i].Name, l.Count, span(l.Median), span(l.P95), span(l.Mean), l.Ratio)
				}
			}
		}
	}
	w.Flush()
	r.writeDifferences(&b)
	_, err := io.WriteString(out, b.String())
	return err
}

// WriteDifferences writes what differs alone.
func (r *Report) WriteDifferences(out io.Writer) error {
	var b strings.Builder
	r.writeDifferences(&b)
	_, err := io.WriteString(out, b.String())
	return err
}

// writeDifferences writes what differs, arm by arm.
func (r *Report) writeDifferences(b *strings.Builder) {
	for i := range r.Arms[min(1, len(r.Arms)):] {
		a := &r.Arms[i+1]
		var listed, following int
		for _, g := range a.Groups {
			switch {
			case g.Name != "":
				listed++
			case g.Follows != "":
				following++
			}
		}
		fmt.Fprintf(b, "\n%s: ", a.Name)
		if len(a.Groups) == 0 {
			b.WriteString("no difference.\n")
			continue
		}
		fmt.Fprintf(b, "%d kinds of differences that are not on the list of what can be noticed, %d that are, %d that may follow from these.\n", a.Unlisted, listed, following)
		const most = 40
		named := map[string][]Group{}
		var names []string
		for n, g := range a.Groups {
			name := g.Name
			switch {
			case g.Follows != "":
				name = "may follow from " + g.Follows
			case name == "":
				if n < most {
					fmt.Fprintf(b, "  NOT LISTED, %d times in %s of %s\n    %s\n", g.Count, g.Field, g.Shape, g.Example)
				} else if n == most {
					fmt.Fprintf(b, "  … and %d more that are not listed\n", a.Unlisted-most)
				}
				continue
			}
			if named[name] == nil {
				names = append(names, name)
			}
			named[name] = append(named[name], g)
		}
		for _, name := range names {
			writeNamed(b, name, named[name])
		}
	}
	if n := len(r.NotRepeatable); n > 0 {
		fmt.Fprintf(b, "\nNot compared, as the server itself answers differently each time: %d kinds of fields.\n", n)
		for i, g := range r.NotRepeatable {
			if i == 10 {
				fmt.Fprintf(b, "  … and %d more\n", n-i)
				break
			}
			fmt.Fprintf(b, "  %s of %s (%d times)\n", g.Field, g.Shape, g.Count)
		}
	}
}

// writeNamed writes the groups of one name, the most frequent ones with examples.
func writeNamed(b *strings.Builder, name string, groups []Group) {
	slices.SortStableFunc(groups, func(x, y Group) int { return y.Count - x.Count })
	count := 0
	for _, g := range groups {
		count += g.Count
	}
	fmt.Fprintf(b, "  %s, %d times", name, count)
	if r := groups[0].Reason; r != "" {
		fmt.Fprintf(b, ": %s", r)
	}
	b.WriteByte('\n')
	const most = 3
	for i, g := range groups {
		if i == most {
			fmt.Fprintf(b, "    … and in %d more\n", len(groups)-most)
			break
		}
		fmt.Fprintf(b, "    %d times in %s of %s\n      %s\n", g.Count, g.Field, g.Shape, g.Example)
	}
}

// span is a duration with three digits.
func span(d time.Duration) string {
	switch {
	case d < 10*time.Microsecond:
		return d.Round(10 * time.Nanosecond).String()
	case d < time.Millisecond:
		return d.Round(time.Microsecond / 10).String()
	case d < time.Second:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
