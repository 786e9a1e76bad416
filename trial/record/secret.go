package record

import (
	"bytes"
	"regexp"
	"strings"
)

// Handling is what may be kept of a statement.
type Handling uint8

const (
	Keep Handling = iota // the text as it is
	Mask                 // the text with its literals masked, and masked parameters
	Omit                 // nothing: not its text, not its parameters
)

var (
	// identified is how accounts are given passwords, in whatever statement, string or comment it stands.
	identified = regexp.MustCompile(`(?i)identified|://[^\s'"]*:[^\s'"]*@`)
	// secretive are words that tell that a value near them may be a secret of the application's.
	secretive = regexp.MustCompile(`(?i)passw|passphrase|secret|credential|api_?key|auth_?(token|string)|access_?token|private_?key`)
	// digesting are functions to which secrets are given.
	digesting = regexp.MustCompile(`(?i)\b(password|old_password|md5|sha|sha1|sha2|aes_encrypt|aes_decrypt|des_encrypt|des_decrypt|encrypt|encode|decode|kdf)\s*\(`)
)

// maskable are the first words of statements that still run with other literals.
var maskable = map[string]bool{
	"SELECT": true, "INSERT": true, "REPLACE": true, "UPDATE": true, "DELETE": true, "WITH": true, "VALUES": true, "TABLE": true, "DO": true,
	"CALL": true, "EXPLAIN": true, "DESCRIBE": true, "DESC": true, "SHOW": true, "LOAD": true, "DROP": true, "TRUNCATE": true, "(": true,
}

// Sensitive says what may be kept of a statement's text, which may hold several statements. It errs on the side of leaving out.
func Sensitive(s []byte, l Lexical) Handling {
	if identified.Match(s) {
		return Omit
	}
	handling := Keep
	if digesting.Match(s) {
		handling = Mask
	}
	suspicious := secretive.Match(s)
	list := tokens(s, l)
	for len(list) > 0 {
		end := 0
		for end < len(list) && !(list[end].kind == mark && s[list[end].start] == ';') {
			end++
		}
		handling = max(handling, sensitive(s, list[:end], suspicious))
		list = list[min(end+1, len(list)):]
	}
	return handling
}

// sensitive judges one statement.
func sensitive(s []byte, list []token, suspicious bool) Handling {
	words := leading(s, list)
	switch words[0] {
	case "GRANT", "CHANGE", "CLONE":
		return Omit
	case "CREATE", "ALTER", "DROP", "RENAME":
		i := 1
		if words[i] == "OR" { // REPLACE
			i = 3
		}
		switch words[i] {
		case "USER", "ROLE", "SERVER":
			return Omit
		case "TABLE", "TEMPORARY":
			if connects(s, list) {
				return Omit
			}
			if suspicious {
				return Mask
			}
			return Keep
		}
	case "SET":
		if words[1] == "PASSWORD" || suspicious && setsSecretive(s, list) {
			return Omit
		}
		if suspicious {
			return Mask
		}
		return Keep
	}
	switch {
	case !suspicious:
		return Keep
	case maskable[words[0]]:
		return Mask
	}
	return Omit
}

// leading returns the first words of a statement in upper case, as far as there are.
func leading(s []byte, list []token) [5]string {
	var words [5]string
	n := 0
	for _, t := range list {
		if t.kind == comment {
			continue
		}
		if n == len(words) {
			break
		}
		words[n] = strings.ToUpper(string(s[t.start:t.end]))
		n++
	}
	return words
}

// connects says whether a table's definition names another server.
func connects(s []byte, list []token) bool {
	for _, t := range list {
		if t.kind == word && bytes.EqualFold(s[t.start:t.end], []byte("CONNECTION")) {
			return true
		}
	}
	return false
}

// setsSecretive says whether a SET assigns to a variable of the server's whose name is suspicious, or whether it may.
func setsSecretive(s []byte, list []token) bool {
	for i, t := range list {
		if t.kind == text || t.kind == comment || !secretive.Match(s[t.start:t.end]) {
			continue
		}
		user := i > 0 && s[list[i-1].start] == '@' && (i < 2 || s[list[i-2].start] != '@')
		if !user {
			return true
		}
	}
	return false
}
