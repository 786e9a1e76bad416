package main

import (
	"bytes"
	"errors"
	"math"
	"testing"
)

func TestFormatTime(t *testing.T) {
	for seconds, want := range map[float64]string{
		0:           "0.00 µs",
		0.0000041:   "4.10 µs",
		0.0000416:   "41.6 µs",
		0.000211:    "211 µs",
		0.0009994:   "999 µs",
		0.0009996:   "1.00 ms",
		0.00999:     "9.99 ms",
		0.009996:    "10.0 ms",
		0.09996:     "100 ms",
		0.9994:      "999 ms",
		0.9996:      "1.00 s",
		12.34:       "12.3 s",
		0.000099951: "100 µs",
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
	direct := []figures{{150e-6, 2.4e-3}, {300e-6, 4.8e-3}, {152e-6, 2.45e-3}}
	slower := []figures{{300e-6, 4.8e-3}, {600e-6, 9.6e-3}, {304e-6, 4.9e-3}}
	faster := []figures{{15e-6, 1.2e-3}, {30e-6, 2.4e-3}, {15.2e-6, 1.24e-3}}
	rows := func(other []figures) []row {
		return []row{{name: "direct", rounds: direct}, {name: "native", rounds: slower}, {name: "innodb", rounds: other}}
	}
	blocks := []block{{title: "An application", rows: rows(faster)}, {title: "Another application", rows: rows(slower)}}
	const want = `One CREATE and one DROP                             direct   native   innodb
  An application                                    152 µs    2.00x    0.10x
  Another application                               152 µs    2.00x    2.00x
All statements of a cycle                           direct   native   innodb
  An application                                   2.45 ms    2.00x    0.50x
  Another application                              2.45 ms    2.00x    2.00x
`
	var got bytes.Buffer
	if err := writeTable(&got, blocks); err != nil {
		t.Fatal(err)
	}
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteTableFails(t *testing.T) {
	if err := writeTable(full{}, []block{{rows: []row{{}}}}); err == nil {
		t.Error("an error of the writer is lost")
	}
}
