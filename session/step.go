package session

import "tmpproxy/rewrite"

// EventKind says what the client's command is, as far as the machine cares.
type EventKind uint8

const (
	EventQuery       EventKind = iota // COM_QUERY; Text is the statement
	EventPrepare                      // COM_STMT_PREPARE; Text is the statement
	EventExecute                      // COM_STMT_EXECUTE, COM_STMT_BULK_EXECUTE; Handle is the statement id
	EventCloseHandle                  // COM_STMT_CLOSE; Handle is the statement id; has no reply
	EventInitDB                       // COM_INIT_DB; Text is the schema's name
	EventFieldList                    // COM_FIELD_LIST; Text is the table's name
	EventQuiet                        // commands that touch neither tables nor diagnostics: PING, STATISTICS, STMT_SEND_LONG_DATA, STMT_FETCH, STMT_RESET
	EventSetOption                    // COM_SET_OPTION, which is as quiet but for ROW_COUNT(), -1 behind it
	EventOther                        // other known commands: PROCESS_INFO, DEBUG, REFRESH, PROCESS_KILL, CREATE_DB, DROP_DB ...
	EventReset                        // COM_RESET_CONNECTION
	EventChangeUser                   // COM_CHANGE_USER; Text is the schema asked for
	EventQuit                         // COM_QUIT; has no reply
	EventUnknown                      // a command we do not know: settle all, forward
	EventRaw                          // a command after which the session is a raw relay for good: settle all, forward
)

// NoHandle is the id of no statement.
const NoHandle = 0xFFFFFFFF

// Event is one command of the client. The machine keeps neither the Event nor its Text beyond the call.
type Event struct {
	Kind      EventKind
	Text      []byte            // see EventKind; may be only the beginning, see Whole
	Whole     bool              // Text is the whole text, not the beginning of a long statement; of EventExecute: it is there as a whole, and asks for nothing but the execution
	Statement rewrite.Statement // EventQuery, EventPrepare: rewrite.Classify(Text)
	Create    *rewrite.Create   // rewrite.Analyze of the CREATE TEMPORARY TABLE that EventQuery runs or prepares, or EventPrepare prepares; nil otherwise
	Handle    uint32            // EventExecute, EventCloseHandle; NoHandle: there is surely no such statement
	Collation uint16            // EventChangeUser: the collation asked for; 0 if the command does not say
	Began     int64             // when the command was taken up; less than Now if it had to wait
	Now       int64             // monotonic nanoseconds
	Policy    *Policy           // the settings in force; never nil
}

// OutcomeKind says how the backend answered.
type OutcomeKind uint8

const (
	OutcomeOK   OutcomeKind = iota // an OK (or EOF) packet ended the reply
	OutcomeErr                     // an ERR packet ended it
	OutcomeSet                     // a result set ended it
	OutcomeNone                    // the command has no reply
)

// Outcome is a summary of the backend's complete reply to what a Step sent. Of several results the last counts.
type Outcome struct {
	Kind         OutcomeKind
	Code         uint16 // of an ERR
	Status       uint16 // SERVER_STATUS_* flags of the last OK or EOF; 0 for an ERR
	Warnings     uint16
	Affected     uint64
	Handle       uint32             // statement id of a COM_STMT_PREPARE
	Results      int                // how many results the reply had, if more than one; 0 or 1 otherwise
	Definition   rewrite.Definition // of a ClassCheck: what SHOW CREATE TABLE says; nil if that is too long, or if it was something else. Not kept
	StateTracked bool               // an OK carried SESSION_TRACK_STATE_CHANGE or SESSION_TRACK_TRANSACTION_* information
	Now          int64              // monotonic nanoseconds
}

// StepKind says what the caller has to do next.
type StepKind uint8

const (
	StepForward StepKind = iota // send the client's command as it is, relay the reply as it comes, then Next(outcome)
	StepReplace                 // send SQL (as COM_QUERY, with the client's query attributes) instead; hold back the reply (one OK or ERR packet); then Next(outcome)
	StepRelease                 // deliver the reply held back by StepReplace; the event is over
	StepInject                  // send SQL of our own, swallow the reply; then Next(outcome)
	StepReply                   // answer the client with a made-up OK (Status, Warnings); the event is over
	StepFail                    // answer the client with the ERR that the last StepInject got; the event is over
	StepWait                    // a background statement is out and must be answered first: BackgroundDone, then Begin with the same event again
	StepRaw                     // send the client's command as it is; the session is a raw relay from here on; the machine is not asked again
	StepDone                    // only from Next: the event is over, nothing is left to do
)

// Class says what a step is for; the proxy measures by it.
type Class uint8

const (
	ClassOther    Class = iota
	ClassCreate         // the client's CREATE TEMPORARY TABLE
	ClassDrop           // the client's DROP of a temporary table
	ClassUse            // a client's statement that names a managed table
	ClassReset          // a TRUNCATE or DELETE of ours that empties a table
	ClassCheck          // a look of ours at what a name stands for
	ClassSettle         // a DROP TEMPORARY TABLE of ours
	ClassReplay         // a statement sent only to restore diagnostics
	ClassPreserve       // a statement of ours that keeps rows from a ROLLBACK
)

// Step is what the caller has to do next.
type Step struct {
	Kind     StepKind
	SQL      string // StepReplace, StepInject
	Status   uint16 // StepReply
	Warnings uint16 // StepReply
	Class    Class
	Shape    string // rewrite.Create.Shape of the table concerned, if one is
}

// Strategy is what is done with cycles.
type Strategy uint8

const (
	StrategyNative Strategy = iota // forward everything
	StrategyKeep                   // cache, leave the engine alone
	StrategyInnoDB                 // cache, convert the engines of Policy.Convert to InnoDB
	StrategyAuto                   // of the three the one that the ledger chooses for the shape
)

// ArmSet is a set of the strategies that StrategyAuto may choose.
type ArmSet uint8

// Has tells whether s is in the set.
func (a ArmSet) Has(s Strategy) bool { return a&(1<<s) != 0 }

// Routines says how stored routines are dealt with.
type Routines uint8

const (
	RoutinesVisible Routines = iota // CALL and calls of functions that are not built in are opaque
	RoutinesScan                    // the ledger knows all names that bodies mention
	RoutinesNone                    // everything is native on a server that has any routine or trigger
)

// OnHazard says what a hazard seen on a converted table does to its shape.
type OnHazard uint8

const (
	HazardCount OnHazard = iota
	HazardNative
)

// Policy is the part of the configuration that the machine obeys. It is immutable; a reload makes a new one.
type Policy struct {
	Strategy      Strategy
	Convert       rewrite.EngineSet
	Strict        bool // fidelity: strict
	Routines      Routines
	OnHazard      OnHazard
	ConvertSelect bool  // CREATE .. AS SELECT is converted, too
	CacheLike     bool  // CREATE .. LIKE is cached, too
	Deletes       bool  // tables are emptied by DELETE where that is cheaper
	Measure       bool  // the ledger wants to know of each cycle: NoteEnd
	Preserve      bool  // rows of converted tables outlive an explicit ROLLBACK
	MaxStatement  int   // bytes of a statement that are examined
	MaxCreate     int   // bytes of a CREATE that rewrite.Analyze may parse
	MaxParked     int   // parked tables per session
	ParkTTL       int64 // nanoseconds
	MaxAge        int64 // nanoseconds

	// Observe has an Observer find out what these settings would do: Strategy is StrategyNative then. nil: there is none.
	Observe *Policy
}

// Server is what the greeting says of the backend.
type Server struct {
	MariaDB bool
	Version int // 90704, 101119
}

// Key names a table. Schema and Name are as the client wrote them.
type Key struct{ Schema, Name string }

// ShapeState is what the process knows of a shape.
type ShapeState struct {
	Proved bool  // the spliced CREATE was seen to answer as many warnings as the client's own
	Native int64 // until when (Event.Now) cycles of this shape are left alone; 0: not at all
}

// NameState is what the process knows of a table's name on this server.
type NameState struct {
	Seen    bool  // a cycle of this name was completed in this process
	Native  int64 // until when cycles of this name are left alone
	Routine bool  // RoutinesScan: the body of a routine or trigger mentions it
}

// NoteKind says what a Note tells the ledger.
type NoteKind uint8

const (
	NoteCycle      NoteKind = iota // a managed cycle began: a CREATE was taken part in
	NoteSeen                       // a cycle of Name was completed: NameState.Seen
	NoteReuse                      // a CREATE was answered from a parked table
	NotePark                       // a DROP was answered by parking
	NoteSettle                     // a parked table was really dropped; Reason
	NoteReplay                     // diagnostics had to be restored by a real statement
	NoteFallback                   // a CREATE was left to the server; Reason
	NoteHazard                     // a difference of conversion may have shown; Reason
	NoteProved                     // ShapeState.Proved
	NoteBlockShape                 // ShapeState.Native = Until
	NoteBlockName                  // NameState.Native = Until
	NoteTaint                      // a table became tainted; Reason
	NoteReset                      // a table was emptied in the background that may be emptied either way; Deleted, Took
	NoteEnd                        // a cycle was measured from its CREATE to its DROP; Cycle
)

// Note is one fact for the process-wide ledger.
type Note struct {
	Kind    NoteKind
	Shape   string
	Name    Key
	Reason  string // snake_case, from a fixed list
	Until   int64
	Took    int64  // nanoseconds
	Deleted bool   // by DELETE
	Cycle   *Cycle // the machine's: not to be kept or changed
}

// Ledger is the process-wide memory that the machines of one backend share. Implementations are safe for concurrent use and never
// block for long: the machine calls them in the middle of a command.
type Ledger interface {
	Shape(shape string) ShapeState
	Name(key Key) NameState
	// Routines says whether bodies were read (scan) and whether the server has any routine or trigger.
	Routines() (known, any bool)
	// Choose says what StrategyAuto does with the cycle of a shape that begins now; arms are what its CREATE allows.
	Choose(shape string, arms ArmSet) Strategy
	// Deletes says whether a DELETE is expected to cost less than a TRUNCATE of a table of a shape.
	Deletes(shape string) bool
	// Answering is how long an answer of ours takes, in nanoseconds: to the machine no time goes by between an Event and a StepReply.
	// It is asked under Policy.Measure.
	Answering() int64
	Note(Note)
}
