package bench

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
)

//go:embed report.html
var pageText string

var page = template.Must(template.New("report").Parse(pageText))

// WriteHTML writes the report as one page that needs nothing else. An error is the writer's.
func (r *Report) WriteHTML(w io.Writer) error {
	v := view{Introduction: r.introduction()}
	for i := range r.Targets {
		t := &r.Targets[i]
		value, bounds := t.measured()
		class := "open"
		if t.Cells > 0 {
			switch t.Met {
			case 0:
				class = "unmet"
			case t.Cells:
				class = "met"
			default:
				class = "partly"
			}
		}
		v.Targets = append(v.Targets, targetView{TargetResult: t, Value: value, Bounds: bounds, Class: class})
	}
	for _, workload := range r.workloads() {
		s := section{Name: workload, Heading: headings[workload]}
		cells := r.of(workload)
		for _, m := range cells[0].Metrics {
			if len(armsWith(cells, m.Key)) > 0 {
				s.Metrics = append(s.Metrics, newMetricView(cells, m))
			}
		}
		v.Sections = append(v.Sections, s)
	}
	return page.Execute(w, v)
}

// What follows is the report as the page's template wants it.
type (
	view struct {
		Introduction []string
		Targets      []targetView
		Sections     []section
	}
	targetView struct {
		*TargetResult
		Value, Bounds, Class string
	}
	section struct {
		Name, Heading string
		Metrics       []metricView
	}
	metricView struct {
		Title  string
		Better string // where better ratios are
		Base   string // what they are to
		Legend []armView
		Plots  []plot
		Open   bool // the table is shown at once
		Head   []string
		Rows   [][]string
	}
	armView struct {
		Name  string
		Class string
		Mark  template.HTML // around 0, 0
	}
	// A plot shows the ratios of cells that differ in their first two parameters only.
	plot struct {
		Title, RowTitle      string
		Width, Height        float64
		Left, Right, Bottom  float64
		BetterLeft, BetterTo float64
		Ticks                []tick
		Rows                 []plotRow
	}
	tick struct {
		X     float64
		Label string
		One   bool
	}
	plotRow struct {
		Y, LabelY float64
		Label     string
		Line      bool // drawn above it
		Points    []point
	}
	point struct {
		armView
		X, Y, Low, High float64
		Title           string
	}
)

// secondary metrics are shown as a table only.
func secondary(m Metric) bool {
	return strings.HasSuffix(m.Key, "p99") || slices.Contains([]string{cpuMetric.Key, allocationMetric.Key, "base"}, m.Key)
}

func newMetricView(cells []*Cell, m Metric) metricView {
	v := metricView{Title: m.Title, Base: cells[0].Arms[0].Name, Better: "less"}
	if m.Higher {
		v.Better = "more"
	}
	v.Head, v.Rows = metricTable(cells, m)
	v.Open = len(cells) <= 4
	if secondary(m) {
		return v
	}
	arms := armsWith(cells, m.Key)
	arms = slices.DeleteFunc(arms, func(name string) bool { return name == v.Base })
	if len(arms) == 0 {
		return v
	}
	for _, name := range arms {
		v.Legend = append(v.Legend, newArmView(name))
	}
	least, most := 1.0, 1.0
	for _, c := range cells {
		for _, a := range c.Arms {
			if r := a.Results[m.Key].Ratio; r != nil && r.Value > 0 {
				least, most = min(least, r.Value), max(most, r.Value)
			}
		}
	}
	axis := newAxis(least, most)
	var facets []string
	byFacet := make(map[string][]*Cell)
	for _, c := range cells {
		facet := describe(&Cell{Parameters: c.Parameters[min(2, len(c.Parameters)):]})
		if _, known := byFacet[facet]; !known {
			facets = append(facets, facet)
		}
		byFacet[facet] = append(byFacet[facet], c)
	}
	for _, facet := range facets {
		v.Plots = append(v.Plots, newPlot(facet, byFacet[facet], m, v.Legend, axis))
	}
	return v
}

// metricTable returns the figures of one metric as text.
func metricTable(cells []*Cell, m Metric) (head []string, rows [][]string) {
	names := armsWith(cells, m.Key)
	for _, p := range cells[0].Parameters {
		head = append(head, p.Name)
	}
	head = append(head, names...)
	for _, c := range cells {
		var row []string
		for _, p := range c.Parameters {
			row = append(row, p.Value)
		}
		for _, name := range names {
			text := ""
			if a := c.arm(name); a != nil && len(a.Results[m.Key].Rounds) > 0 {
				r := a.Results[m.Key]
				text = formatValue(m.Unit, r.Median)
				if r.Ratio != nil {
					text += fmt.Sprintf("  %s× [%s, %s]", formatRatio(r.Ratio.Value), formatRatio(r.Ratio.Low), formatRatio(r.Ratio.High))
				}
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	return head, rows
}

// marks are told apart by their form, too.
var marks = map[string]armView{
	"native": {Class: "native", Mark: `<rect x="-4" y="-4" width="8" height="8"/>`},
	"keep":   {Class: "keep", Mark: `<path d="M0-5.5 5 4-5 4z"/>`},
	"innodb": {Class: "innodb", Mark: `<circle r="4.5"/>`},
	"auto":   {Class: "auto", Mark: `<path d="M0-5.5 5.5 0 0 5.5-5.5 0z"/>`},
	// The same with routines scanned is hollow.
	"innodb" + scanSuffix: {Class: "innodb", Mark: `<circle r="3.5" fill="none" stroke="currentColor" stroke-width="2"/>`},
	"auto" + scanSuffix:   {Class: "auto", Mark: `<path d="M0-4.5 4.5 0 0 4.5-4.5 0z" fill="none" stroke="currentColor" stroke-width="2"/>`},
	haproxy:               {Class: "haproxy", Mark: `<path d="M0 5.5 5-4-5-4z"/>`},
	router:                {Class: "router", Mark: `<path d="M-1.5-5h3v3.5h3.5v3h-3.5v3.5h-3v-3.5h-3.5v-3h3.5z"/>`},
	byHand:                {Class: "hand", Mark: `<path d="M-4.5-4.5h9v9h-9z" fill="none" stroke="currentColor" stroke-width="2"/>`},
	echo:                  {Class: "echo", Mark: `<rect x="-1.5" y="-5" width="3" height="10"/>`},
}

func newArmView(name string) armView {
	a, ok := marks[name]
	if !ok {
		a = armView{Class: "other", Mark: `<path d="M-4-4 4 4M4-4-4 4" stroke="currentColor" stroke-width="2"/>`}
	}
	a.Name = name
	return a
}

const (
	plotLeft  = 110
	plotWidth = 430
	plotRight = plotWidth - 16
	plotTop   = 8
	lane      = 11 // the height of one arm's line
)

func newPlot(title string, cells []*Cell, m Metric, arms []armView, a axis) plot {
	p := plot{Title: title, Width: plotWidth, Left: plotLeft, Right: plotRight}
	y := float64(plotTop)
	first := ""
	for i, c := range cells {
		row := plotRow{Y: y}
		if len(c.Parameters) > 0 {
			var names, values []string
			for _, parameter := range c.Parameters[:min(2, len(c.Parameters))] {
				names, values = append(names, parameter.Name), append(values, parameter.Value)
			}
			p.RowTitle, row.Label = strings.Join(names, ", "), strings.Join(values, ", ")
		}
		if len(c.Parameters) > 1 {
			row.Line = i > 0 && c.Parameters[0].Value != first
			first = c.Parameters[0].Value
		}
		for _, arm := range arms {
			r := Result{}
			if found := c.arm(arm.Name); found != nil {
				r = found.Results[m.Key]
			}
			if r.Ratio != nil && r.Ratio.Value > 0 {
				row.Points = append(row.Points, point{armView: arm, Y: y + lane/2.0,
					X: a.place(r.Ratio.Value), Low: a.place(r.Ratio.Low), High: a.place(r.Ratio.High),
					Title: fmt.Sprintf("%s: %s, %s× [%s, %s]", arm.Name, formatValue(m.Unit, r.Median),
						formatRatio(r.Ratio.Value), formatRatio(r.Ratio.Low), formatRatio(r.Ratio.High))})
			}
			y += lane
		}
		row.LabelY = (row.Y+y)/2 + 4
		y += 5
		p.Rows = append(p.Rows, row)
	}
	p.Bottom, p.Height = y, y+20
	p.BetterLeft, p.BetterTo = plotLeft, a.place(1)
	if m.Higher {
		p.BetterLeft, p.BetterTo = a.place(1), plotRight
	}
	p.BetterTo -= p.BetterLeft // a width
	for _, value := range a.ticks {
		p.Ticks = append(p.Ticks, tick{X: a.place(value), Label: fmt.Sprintf("%g", value), One: value == 1})
	}
	return p
}
