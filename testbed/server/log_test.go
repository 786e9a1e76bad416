package server

import (
	"os"
	"testing"
)

func TestLogTail(t *testing.T) {
	for _, test := range []struct {
		name  string
		log   string
		lines int
		want  string
	}{
		{"empty", "", 2, ""},
		{"one", "a\n", 2, "a"},
		{"as many", "a\nb\n", 2, "a\nb"},
		{"more", "a\nb\nc\n", 2, "b\nc"},
		{"none wanted", "a\nb\n", 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &Server{Dir: t.TempDir()}
			if err := os.WriteFile(s.logPath(), []byte(test.log), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := s.LogTail(test.lines); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
