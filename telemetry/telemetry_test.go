package telemetry

import (
	"slices"
	"testing"
)

func TestQueue(t *testing.T) {
	q := NewQueue(3, 10)
	add := func(text string) bool { return q.Add(Statement{Text: []byte(text)}) }
	for _, step := range []struct {
		text string
		want bool
	}{{"12345", true}, {"123456", false}, {"12345", true}, {"", true}, {"", false}} { // too many bytes, too many statements
		if got := add(step.text); got != step.want {
			t.Errorf("%q: %v, want %v", step.text, got, step.want)
		}
	}
	var got []string
	q.Drain(func(s Statement) {
		q.Taken(&s)
		if s.End.IsZero() {
			t.Error("no end")
		}
		got = append(got, string(s.Text))
	})
	if want := []string{"12345", "12345", ""}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if !add("1234567890") {
		t.Error("no room although all was taken")
	}
	if s := <-q.Waiting(); string(s.Text) != "1234567890" {
		t.Errorf("%q", s.Text)
	}
}
