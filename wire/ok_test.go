package wire

import (
	"bytes"
	"reflect"
	"testing"
)

const (
	caps41      = ClientProtocol41
	capsTracked = ClientProtocol41 | ClientSessionTrack
	capsModern  = ClientProtocol41 | ClientSessionTrack | ClientDeprecateEOF
)

func TestParseOK(t *testing.T) {
	for _, test := range []struct {
		name    string
		payload string
		caps    Capability
		want    OK
	}{
		{"plain", "\x00\x00\x00\x02\x00\x00\x00", caps41, OK{Status: 2}},
		{"numbers", "\x00\xfc\x00\x01\xfd\x01\x00\x01\x03\x00\x05\x00", caps41, OK{Affected: 256, InsertID: 65537, Status: 3, Warnings: 5}},
		{"info", "\x00\x03\x00\x02\x00\x00\x00\x04info", caps41, OK{Affected: 3, Status: 2, Info: []byte("info")}},
		{"info, tracked", "\x00\x03\x00\x02\x00\x00\x00\x04info", capsTracked, OK{Affected: 3, Status: 2, Info: []byte("info")}},
		{"state", "\x00\x00\x00\x02\x40\x00\x00\x00\x06\x01\x04\x03lab", capsTracked, OK{Status: 0x4002, Info: []byte{}, State: []byte("\x01\x04\x03lab")}},
		{"info and state", "\x00\x00\x00\x02\x40\x00\x00\x01i\x03\x02\x011", capsTracked, OK{Status: 0x4002, Info: []byte("i"), State: []byte("\x02\x011")}},
		{"flag without state", "\x00\x00\x00\x02\x40\x00\x00", capsTracked, OK{Status: 0x4002}},
		{"state that was not asked for", "\x00\x00\x00\x02\x40\x00\x00\x00\x01x", caps41, OK{Status: 0x4002, Info: []byte{}}},
		{"instead of EOF", "\xfe\x00\x00\x02\x00\x01\x00", capsModern, OK{Status: 2, Warnings: 1}},
		{"before 4.1", "\x00\x01\x02", 0, OK{Affected: 1, InsertID: 2}},
		{"before 4.1 with status", "\x00\x01\x02\x03\x00", ClientTransactions, OK{Affected: 1, InsertID: 2, Status: 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := ParseOK([]byte(test.payload), test.caps)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
	for name, payload := range map[string]string{
		"empty": "", "ERR": "\xff\x00\x00\x02\x00\x00\x00", "row": "\x01\x00\x00\x02\x00\x00\x00", "short": "\x00\x00\x00\x02\x00\x00",
		"no numbers": "\x00", "NULL": "\x00\xfb\x00\x02\x00\x00\x00", "short info": "\x00\x00\x00\x02\x00\x00\x00\x05info",
		"short state": "\x00\x00\x00\x02\x40\x00\x00\x00\x05\x02\x011",
	} {
		if ok, err := ParseOK([]byte(payload), capsTracked); err == nil {
			t.Errorf("%s: %+v", name, ok)
		}
	}
}

func TestParseEOF(t *testing.T) {
	for _, test := range []struct {
		payload          string
		caps             Capability
		status, warnings uint16
	}{
		{"\xfe\x01\x00\x22\x00", caps41, 0x22, 1},
		{"\xfe\x01\x00\x22\x00", capsModern, 0x22, 1},
		{"\xfe\x00\x00\x22\x00\x01\x00", capsModern, 0x22, 1},
		{"\xfe\x00\x00\x22\x40\x01\x00\x00\x03\x02\x011", capsModern, 0x4022, 1},
		{"\xfe", 0, 0, 0},
	} {
		status, warnings, err := ParseEOF([]byte(test.payload), test.caps)
		if err != nil || status != test.status || warnings != test.warnings {
			t.Errorf("%q: status %#x, %d warnings, %v; want %#x, %d", test.payload, status, warnings, err, test.status, test.warnings)
		}
	}
	for _, payload := range []string{"", "\x00\x01\x00\x22\x00", "\xfe", "\xfe\x01\x00\x22", "\xfe\x00\x00\x22\x00\x01\x00\x05"} {
		if _, _, err := ParseEOF([]byte(payload), capsModern); err == nil {
			t.Errorf("%q is an EOF", payload)
		}
	}
}

func TestParseErr(t *testing.T) {
	for _, test := range []struct {
		payload string
		want    Err
		text    string
	}{
		{"\xff\x7a\x04#42S02Table 'a.b' doesn't exist", Err{1146, "42S02", "Table 'a.b' doesn't exist"}, "ERROR 1146 (42S02): Table 'a.b' doesn't exist"},
		{"\xff\x10\x04Too many connections", Err{1040, "", "Too many connections"}, "ERROR 1040: Too many connections"},
		{"\xff\x10\x04", Err{1040, "", ""}, "ERROR 1040: "},
		{"\xff\x10\x04#HY00", Err{1040, "", "#HY00"}, "ERROR 1040: #HY00"},
		{"\xff\x10\x04#HY000", Err{1040, "HY000", ""}, "ERROR 1040 (HY000): "},
	} {
		got, err := ParseErr([]byte(test.payload))
		if err != nil {
			t.Errorf("%q: %v", test.payload, err)
		} else if *got != test.want || got.Error() != test.text {
			t.Errorf("%q: %+v, %q; want %+v, %q", test.payload, *got, got, test.want, test.text)
		}
	}
	for _, payload := range []string{"", "\xff", "\xff\x10", "\x00\x10\x04x"} {
		if e, err := ParseErr([]byte(payload)); err == nil {
			t.Errorf("%q: %v", payload, e)
		}
	}
}

// TestAppendOK compares with what MySQL 9.7 and MariaDB 10.11 and 11.8 were seen to write, byte for byte.
func TestAppendOK(t *testing.T) {
	for _, test := range []struct {
		name string
		caps Capability
		ok   OK
		want string
	}{
		{"CREATE TEMPORARY TABLE", capsModern, OK{Status: 2}, "07000001 00 00 00 0200 0000"},
		{"the same, not tracked", caps41, OK{Status: 2}, "07000001 00 00 00 0200 0000"},
		{"DROP IF EXISTS of nothing", capsModern, OK{Status: 2, Warnings: 1}, "07000001 00 00 00 0200 0100"},
		{"in a transaction", capsModern, OK{Status: 3}, "07000001 00 00 00 0300 0000"},
		{"info", capsModern, OK{Affected: 3, Status: 2, Info: []byte("Records: 2  Duplicates: 1  Warnings: 0")},
			"2e000001 00 03 00 0200 0000 26 5265636f7264733a203220204475706c6963617465733a20312020 5761726e696e67733a2030"},
		{"the same, not tracked", caps41, OK{Affected: 3, Status: 2, Info: []byte("Records: 2  Duplicates: 1  Warnings: 0")},
			"2e000001 00 03 00 0200 0000 26 5265636f7264733a203220204475706c6963617465733a20312020 5761726e696e67733a2030"},
		{"USE", capsModern, OK{Status: 0x4002, State: []byte("\x01\x04\x03lab")}, "0f000001 00 00 00 0240 0000 00 06 01 04 03 6c6162"},
		{"the same, not tracked", caps41, OK{Status: 2}, "07000001 00 00 00 0200 0000"},
		{"before 4.1", 0, OK{Affected: 1, Status: 2, Warnings: 1}, "03000001 00 01 00"},
		{"before 4.1 with status", ClientTransactions, OK{Affected: 1, Status: 2, Warnings: 1}, "05000001 00 01 00 0200"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := AppendOK([]byte("before"), 1, test.caps, test.ok); !bytes.Equal(got, append([]byte("before"), unhex(test.want)...)) {
				t.Errorf("got  %x\nwant %x", got[len("before"):], unhex(test.want))
			}
		})
	}
}

func TestAppendErr(t *testing.T) {
	const message = "Access denied"
	for _, test := range []struct {
		name string
		seq  byte
		caps Capability
		err  Err
		want string
	}{
		{"4.1", 2, capsModern, Err{1045, "28000", message}, "\x16\x00\x00\x02\xff\x15\x04#28000" + message},
		{"no state", 1, capsModern, Err{2003, "", message}, "\x16\x00\x00\x01\xff\xd3\x07#HY000" + message},
		{"instead of a greeting", 0, 0, Err{1040, "08004", message}, "\x10\x00\x00\x00\xff\x10\x04" + message},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := AppendErr([]byte{9}, test.seq, test.caps, test.err)
			if want := "\x09" + test.want; string(got) != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
			e, err := ParseErr(got[1+HeaderSize:])
			if err != nil || e.Code != test.err.Code || e.Message != message {
				t.Errorf("reads as %v, %v", e, err)
			}
		})
	}
}

func TestSetStatus(t *testing.T) {
	for _, caps := range []Capability{ClientProtocol41, ClientProtocol41 | ClientDeprecateEOF | ClientSessionTrack} {
		for _, ok := range []OK{{Status: StatusAutocommit}, {Affected: 1 << 20, InsertID: 300, Status: StatusInTrans, Warnings: 3, Info: []byte("Records: 3")}} {
			p := AppendOK(nil, 1, caps, ok)
			SetStatus(p[HeaderSize:], caps, StatusMoreResultsExists)
			want := ok
			want.Status |= StatusMoreResultsExists
			if got, err := ParseOK(p[HeaderSize:], caps); err != nil || got.Status != want.Status || got.Affected != ok.Affected || got.Warnings != ok.Warnings || string(got.Info) != string(ok.Info) {
				t.Errorf("%v: %+v, %v", ok, got, err)
			}
		}
	}
	eof := []byte{0xfe, 1, 0, 2, 0}
	SetStatus(eof, ClientProtocol41, StatusMoreResultsExists)
	if status, warnings, err := ParseEOF(eof, ClientProtocol41); status != StatusAutocommit|StatusMoreResultsExists || warnings != 1 || err != nil {
		t.Errorf("EOF: %#x, %d, %v", status, warnings, err)
	}
	SetStatus([]byte{0}, ClientProtocol41, 8) // too short: nothing happens
}
