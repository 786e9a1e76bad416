package proxy

import "testing"

func TestBodies(t *testing.T) {
	system := Body{Schema: "sys", Name: "diagnostics", Kind: "PROCEDURE", Language: "SQL", Text: "CREATE TEMPORARY TABLE tmp_digests (a INT); PREPARE s FROM @q", Readable: true}
	own := Body{Schema: "app", Name: "p", Kind: "PROCEDURE", Language: "SQL", Text: "INSERT INTO T1 VALUES (1)", Readable: true}
	dynamic := Body{Schema: "app", Name: "d", Kind: "PROCEDURE", Language: "SQL", Text: "SET @q = CONCAT('DROP TABLE ', n); prepare s FROM @q; EXECUTE s", Readable: true}
	unread := Body{Schema: "app", Name: "u", Kind: "FUNCTION", Language: "SQL"}
	foreign := Body{Schema: "app", Name: "j", Kind: "FUNCTION", Language: "JAVASCRIPT", Text: "1", Readable: true}
	for _, test := range []struct {
		name      string
		all       []Body
		any       bool
		mentioned map[string]bool
	}{
		{"none", nil, false, map[string]bool{"t1": false}},
		{"the server's own", []Body{system}, false, map[string]bool{"t1": false, "tmp_digests": true}},
		{"ours", []Body{system, own}, true, map[string]bool{"t1": true, "t2": false, "tmp_digests": true}},
		{"dynamic", []Body{own, dynamic}, true, map[string]bool{"t1": true, "t2": true}},
		{"unreadable", []Body{unread}, true, map[string]bool{"t2": true}},
		{"another language", []Body{foreign}, true, map[string]bool{"t2": true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBodies(test.all)
			if b.any() != test.any {
				t.Errorf("any: %v, want %v", b.any(), test.any)
			}
			for range 2 { // the second time from memory
				for table, want := range test.mentioned {
					if got := b.mentions(table); got != want {
						t.Errorf("mentions %s: %v, want %v", table, got, want)
					}
				}
			}
		})
	}
}
