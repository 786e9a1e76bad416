package wire

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// attributeBlock builds the block of query attributes with the go-mysql client's own encoding.
func attributeBlock(attributes ...mysql.QueryAttribute) []byte {
	b := mysql.PutLengthEncodedInt(uint64(len(attributes)))
	b = append(b, 1)
	if len(attributes) == 0 {
		return b
	}
	b = append(b, make([]byte, (len(attributes)+7)/8)...)
	b = append(b, 1)
	for _, a := range attributes {
		b = append(b, a.TypeAndFlag()...)
		b = append(b, mysql.PutLengthEncodedString([]byte(a.Name))...)
	}
	for _, a := range attributes {
		b = append(b, a.ValueBytes()...)
	}
	return b
}

func TestSplitQuery(t *testing.T) {
	const sql = "SELECT 1"
	many := make([]mysql.QueryAttribute, 300)
	for i := range many {
		many[i] = mysql.QueryAttribute{Name: "n", Value: strings.Repeat("v", i)}
	}
	tests := []struct {
		name       string
		attributes string
	}{
		{"none", "\x00\x01"},
		{"go-mysql, none", string(attributeBlock())},
		{"go-mysql, string", string(attributeBlock(mysql.QueryAttribute{Name: "trace", Value: "abc"}))},
		{"go-mysql, number", string(attributeBlock(mysql.QueryAttribute{Name: "n", Value: uint64(7)}))},
		{"go-mysql, several", string(attributeBlock(mysql.QueryAttribute{Name: "a", Value: "1"}, mysql.QueryAttribute{Name: "", Value: uint64(1)},
			mysql.QueryAttribute{Name: "c", Value: strings.Repeat("long", 100)}))},
		{"go-mysql, 300", string(attributeBlock(many...))},
		{"NULL by bitmap", "\x02\x01\x01\x01\xfe\x00\x01a\xfe\x00\x01b\x03val"},
		{"ninth is NULL", "\x09\x01\x00\x01\x01" + strings.Repeat("\x01\x00\x00", 9) + "12345678"},
		{"NULL by type", "\x01\x01\x00\x01\x06\x00\x00"},
		{"tiny", "\x01\x01\x00\x01\x01\x80\x01t\x07"},
		{"short", "\x01\x01\x00\x01\x02\x00\x01t\x07\x00"},
		{"year", "\x01\x01\x00\x01\x0d\x00\x01t\x07\x00"},
		{"long", "\x01\x01\x00\x01\x03\x00\x01t\x07\x00\x00\x00"},
		{"int24", "\x01\x01\x00\x01\x09\x00\x01t\x07\x00\x00\x00"},
		{"float", "\x01\x01\x00\x01\x04\x00\x01t\x07\x00\x00\x00"},
		{"longlong", "\x01\x01\x00\x01\x08\x00\x01t\x07\x00\x00\x00\x00\x00\x00\x00"},
		{"double", "\x01\x01\x00\x01\x05\x00\x01t\x07\x00\x00\x00\x00\x00\x00\x00"},
		{"date", "\x01\x01\x00\x01\x0a\x00\x01t\x04\xe8\x07\x01\x02"},
		{"datetime", "\x01\x01\x00\x01\x0c\x00\x01t\x07\xe8\x07\x01\x02\x03\x04\x05"},
		{"timestamp", "\x01\x01\x00\x01\x07\x00\x01t\x0b\xe8\x07\x01\x02\x03\x04\x05\x00\x00\x00\x01"},
		{"time", "\x01\x01\x00\x01\x0b\x00\x01t\x08\x00\x01\x00\x00\x00\x01\x02\x03"},
		{"zero time", "\x01\x01\x00\x01\x0b\x00\x01t\x00"},
		{"decimal", "\x01\x01\x00\x01\xf6\x00\x01t\x031.5"},
		{"blob", "\x01\x01\x00\x01\xfc\x00\x01t\xfc\x03\x00abc"},
		{"vector", "\x01\x01\x00\x01\xf2\x00\x01t\x04\x00\x00\x80\x3f"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			payload := []byte("\x03" + test.attributes + sql)
			attributes, text, err := SplitQuery(payload, ClientQueryAttributes)
			if err != nil {
				t.Fatal(err)
			}
			if string(attributes) != test.attributes || string(text) != sql {
				t.Errorf("split into %q and %q", attributes, text)
			}
			if got := AppendQuery([]byte("x"), ClientQueryAttributes, attributes, sql); string(got[1+HeaderSize:]) != string(payload) {
				t.Errorf("put together as %q", got)
			}
			for cut := range test.attributes {
				if a, text, err := SplitQuery(payload[:1+cut], ClientQueryAttributes); err == nil {
					t.Fatalf("%d bytes split into %q and %q", 1+cut, a, text)
				}
			}
		})
	}
	t.Run("without attributes", func(t *testing.T) {
		attributes, text, err := SplitQuery([]byte("\x03"+sql), ClientProtocol41)
		if attributes != nil || string(text) != sql || err != nil {
			t.Errorf("split into %q and %q, %v", attributes, text, err)
		}
	})
	for name, payload := range map[string]string{
		"empty": "", "another command": "\x16\x00\x01SELECT 1", "no sets": "\x03\x00\x00SELECT 1", "two sets": "\x03\x00\x02SELECT 1",
		"types not sent":            "\x03\x01\x01\x00\x00\x07SELECT 1",
		"types said not to be sent": "\x03\x01\x01\x00\x00\xfe\x00\x00\x03valSELECT 1", "unknown type": "\x03\x01\x01\x00\x01\x42\x00\x00SELECT 1",
		"huge count": "\x03\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01SELECT 1", "a count that is negative as an int": "\x03\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01SELECT 1", "text where attributes should be": "\x03SELECT 1",
	} {
		if a, text, err := SplitQuery([]byte(payload), ClientQueryAttributes); err == nil {
			t.Errorf("%s: split into %q and %q", name, a, text)
		}
	}
}

func TestAppendQuery(t *testing.T) {
	for _, test := range []struct {
		name       string
		caps       Capability
		attributes []byte
		want       string
	}{
		{"plain", caps41, nil, "\x05\x00\x00\x00\x03DO 0"},
		{"attributes that the server does not know", caps41, []byte("\x00\x01"), "\x05\x00\x00\x00\x03DO 0"},
		{"no attributes", ClientQueryAttributes, nil, "\x07\x00\x00\x00\x03\x00\x01DO 0"},
		{"attributes", ClientQueryAttributes, []byte("\x01\x01\x00\x01\x06\x00\x00"), "\x0c\x00\x00\x00\x03\x01\x01\x00\x01\x06\x00\x00DO 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := AppendQuery([]byte("x"), test.caps, test.attributes, "DO 0"); string(got) != "x"+test.want {
				t.Errorf("got %q, want %q", got[1:], test.want)
			}
		})
	}
	for _, length := range []int{MaxPayload - 1, MaxPayload, MaxPayload + 1, 2 * MaxPayload, 2*MaxPayload + 9} {
		sql := strings.Repeat("s", length-2) + "e" // with the command byte: length bytes
		want := appendPayload(nil, 0, append([]byte{byte(ComQuery)}, sql...))
		if got := AppendQuery(nil, 0, nil, sql); !bytes.Equal(got, want) {
			t.Errorf("a statement of %d bytes became %d bytes, want %d", len(sql), len(got), len(want))
		}
	}
}
