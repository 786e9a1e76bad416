package rewrite

// Name is the name of a table, unquoted. Schema is "" when the name was not
// qualified.
type Name struct{ Schema, Name string }

// Plain tells whether both parts are ASCII identifiers that need no quotes: letters,
// digits, _ and $, not only digits.
func (n Name) Plain() bool { return false }

// Drop is a DROP TABLE statement.
type Drop struct {
	Temporary bool
	IfExists  bool
	Plain     bool // all names are plain
	Tables    []Name
}

// ParseDrop reads DROP [TEMPORARY] TABLE[S] [IF EXISTS] names [RESTRICT | CASCADE].
// It answers false for everything else.
func ParseDrop(text []byte, mode Mode) (Drop, bool) { return Drop{}, false }

// ParseUse reads USE schema.
func ParseUse(text []byte, mode Mode) (schema string, ok bool) { return "", false }

// AssignmentKind is what an assignment of a SET statement is about.
type AssignmentKind uint8

// The kinds of assignments.
const (
	AssignUser               AssignmentKind = iota // @x
	AssignSession                                  // a session variable
	AssignOneShot                                  // the next transaction only
	AssignSessionTransaction                       // SET SESSION TRANSACTION
	AssignGlobal                                   // GLOBAL, PERSIST, PERSIST_ONLY
	AssignNames                                    // SET NAMES
	AssignCharset                                  // SET CHARACTER SET
	AssignRole                                     // SET ROLE
	AssignDefaultRole                              // SET DEFAULT ROLE
	AssignPassword                                 // SET PASSWORD
	AssignOther                                    // known, and none of the above
)

// Assignment is one assignment of a SET statement.
type Assignment struct {
	Kind       AssignmentKind
	Key, Value string
	Literal    bool
	ReadOnly   bool
}

// ParseSet reads a SET statement.
func ParseSet(text []byte, mode Mode) ([]Assignment, bool) { return nil, false }
