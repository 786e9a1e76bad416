package suite

import (
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	for _, test := range []struct {
		name    string
		direct  []string
		proxied string
		want    []Difference
	}{
		{"equal", []string{"a\nb\n"}, "a\nb\n", nil},
		{"empty", []string{""}, "", nil},
		{"nothing came", []string{"a\n"}, "", []Difference{{1, []string{"a"}, []string{}}}},
		{"a line changed", []string{"a\nb\nc\n"}, "a\nB\nc\n", []Difference{{2, []string{"b"}, []string{"B"}}}},
		{"a line more", []string{"a\nc\n"}, "a\nb\nc\n", []Difference{{2, []string{}, []string{"b"}}}},
		{"the end missing", []string{"a\nb\nc\n"}, "a\n", []Difference{{2, []string{"b", "c"}, []string{}}}},
		{"two places", []string{"a\nb\nc\nd\n"}, "A\nb\nc\nD\n", []Difference{
			{1, []string{"a"}, []string{"A"}}, {4, []string{"d"}, []string{"D"}}}},
		{"thread id", []string{"id 7 x\n", "id 8 x\n"}, "id 12 x\n", nil},
		{"thread id and more", []string{"id 7 x\n", "id 8 x\n"}, "id 12 y\n", []Difference{
			{1, []string{"id 7 x"}, []string{"id 12 y"}}}},
		{"another line's id", []string{"id 7\nn 7\n", "id 8\nn 7\n"}, "id 9\nn 9\n", []Difference{
			{1, []string{"id 7", "n 7"}, []string{"id 9", "n 9"}}}},
		{"third run", []string{"id 7 a\n", "id 8 a\n", "id 8 b\n"}, "id 9 c\n", nil},
		{"what another run prints", []string{"one\n", "two words\n"}, "two words\n", nil},
		{"an unstable number of lines", []string{"a\nx\nb\n", "a\nx\ny\nb\n"}, "a\nx\nb\n", nil},
		{"within it", []string{"a\nb\n", "a\nx\nb\n"}, "a\ny\nz\nb\n", nil},
		{"beside it", []string{"a\nb\nc\n", "a\nx\nb\nc\n"}, "a\nb\nd\n", []Difference{{3, []string{"c"}, []string{"d"}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Compare(test.direct, test.proxied); fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestDiff applies what diff finds and gets the other text.
func TestDiff(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	text := func() []string {
		list := make([]string, random.Intn(12))
		for i := range list {
			list[i] = fmt.Sprint(random.Intn(4))
		}
		return list
	}
	for range 20000 {
		a, b := text(), text()
		var got []string
		at, otherAt := 0, 0
		for _, h := range diff(a, b) {
			if h.from-at != h.otherFrom-otherAt || h.from < at || h.from == h.to && h.otherFrom == h.otherTo {
				t.Fatalf("diff %v %v: hunk %+v after %d, %d", a, b, h, at, otherAt)
			}
			got = append(append(got, a[at:h.from]...), b[h.otherFrom:h.otherTo]...)
			at, otherAt = h.to, h.otherTo
		}
		got = append(got, a[at:]...)
		if strings.Join(got, "") != strings.Join(b, "") {
			t.Fatalf("diff %v %v: applied it makes %v", a, b, got)
		}
	}
}

func TestDiffOfStrangers(t *testing.T) {
	var a, b []string
	for i := range 2 * maxEdits {
		a, b = append(a, fmt.Sprint("a", i)), append(b, fmt.Sprint("b", i))
	}
	want := []hunk{{0, len(a), 0, len(b)}}
	if got := diff(a, b); !reflect.DeepEqual(got, want) {
		t.Errorf("got %d hunks, want one of all", len(got))
	}
}
