package rewrite

// Engine is a storage engine, as far as the rules tell engines apart.
type Engine uint8

// The engines.
const (
	EngineNone   Engine = iota // no ENGINE option
	EngineInnoDB               // InnoDB
	EngineMemory               // MEMORY, HEAP
	EngineMyISAM               // MyISAM
	EngineAria                 // Aria
	EngineOther                // any other
)

// EngineSet is a set of engines.
type EngineSet uint8

// Has tells whether e is in s.
func (s EngineSet) Has(e Engine) bool { return s&(1<<e) != 0 }

// ParseEngineSet reads engine names.
func ParseEngineSet(names []string) (EngineSet, error) { return 0, nil }

// Reason tells why a CREATE is not eligible; 0 means that it is.
type Reason uint8

// String returns the reason in snake_case.
func (r Reason) String() string { return "" }

// Variant is the outcome for one strategy. SQL is set if and only if Reason is 0.
type Variant struct {
	SQL    string
	Reason Reason
}

// Create is what is known of a CREATE TEMPORARY TABLE. It must not be changed.
type Create struct {
	Named                  bool
	Name                   Name
	IfNotExists, OrReplace bool
	Engine                 Engine
	EngineName             string
	Shape                  string
	Convert, Keep          Variant
	Converted              bool
	PrimaryKey             bool
	AutoIncrement          bool
	CharacterColumns       bool
}

// Options is what a decision depends on besides the text.
type Options struct {
	Mode      Mode
	Convert   EngineSet
	MaxCreate int
	Version   int
}

// Analyze judges a CREATE TEMPORARY TABLE.
func Analyze(text []byte, opt Options) *Create { return &Create{} }
