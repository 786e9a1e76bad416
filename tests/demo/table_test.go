package main

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFormatTime(t *testing.T) {
	for seconds, want := range map[float64]string{
		0:           " 0.00 µs",
		0.0000041:   " 4.10 µs",
		0.0000416:   " 41.6 µs",
		0.000211:    "  211 µs",
		0.0009994:   "  999 µs",
		0.0009996:   " 1.00 ms",
		0.00999:     " 9.99 ms",
		0.009996:    " 10.0 ms",
		0.09996:     "  100 ms",
		0.9994:      "  999 ms",
		0.9996:      " 1.00 s ",
		12.34:       " 12.3 s ",
		0.000099951: "  100 µs",
	} {
		if got := formatTime(seconds); got != want {
			t.Errorf("formatTime(%v) = %q, want %q", seconds, got, want)
		}
	}
}

func TestFormatRatio(t *testing.T) {
	for _, test := range []struct {
		quotient float64
		want     string
	}{
		{1, "1.00x"},
		{0.204, "0.20x"},
		{9.994, "9.99x"},
		{9.996, "10x"},
		{123.4, "123x"},
		{math.NaN(), ""},
		{math.Inf(1), ""},
	} {
		if got := formatRatio(test.quotient); got != test.want {
			t.Errorf("formatRatio(%v) = %q, want %q", test.quotient, got, test.want)
		}
	}
}

func TestWriteTable(t *testing.T) {
	direct := []figures{{800, 150e-6, 90e-6, 2.4e-3}, {400, 300e-6, 180e-6, 4.8e-3}, {816, 152e-6, 92e-6, 2.45e-3}}
	slower := []figures{{400, 300e-6, 180e-6, 4.8e-3}, {200, 600e-6, 360e-6, 9.6e-3}, {408, 304e-6, 184e-6, 4.9e-3}}
	faster := []figures{{1000, 15e-6, 9e-6, 1.2e-3}, {500, 30e-6, 18e-6, 2.4e-3}, {1020, 15.2e-6, 9.2e-6, 1.24e-3}}
	blocks := []block{{
		title: "An application",
		rows: []row{
			{name: "direct", rounds: direct, cycles: 12345, sent: counters{24690, 24690, 0}},
			{name: "native", rounds: slower, cycles: 999, sent: counters{1998, 1998, 0}},
			{name: "innodb", rounds: faster, cycles: 15000, sent: counters{8, 4, 14998}},
		},
	}}
	const want = heading + `An application
 direct     800         152 µs        92.0 µs        2.45 ms         12345   24690  24690      0
 native     400 0.50x   304 µs 2.00x   184 µs 2.00x  4.90 ms 2.00x     999    1998   1998      0
 innodb    1000 1.25x  15.2 µs 0.10x  9.20 µs 0.10x  1.24 ms 0.50x   15000       8      4  14998
`
	var got bytes.Buffer
	if err := writeTable(&got, blocks); err != nil {
		t.Fatal(err)
	}
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
	for line := range strings.Lines(got.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 100 {
			t.Errorf("%d columns wide: %s", n, line)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteTableFails(t *testing.T) {
	if err := writeTable(full{}, nil); err == nil {
		t.Error("an error of the writer is lost")
	}
}
