// Package rewrite understands SQL text as far as the proxy must, and no further.
//
// It tells what a statement does by its leading words ([Classify]), reads the few
// statements whose content matters ([ParseSet], [ParseDrop], [ParseUse]), finds out
// whether a text could name a table ([Mentions]) or run a routine ([CallsFunction]),
// and judges whether a CREATE TEMPORARY TABLE may be cached, splicing the text that
// is to be sent instead ([Analyze]).
//
// The scanner is our own and never allocates; the tidb parser is only asked whether
// a CREATE is what it seems. No SQL is ever produced from a syntax tree: texts are
// spliced byte by byte and then compared by their trees.
//
// Left out on purpose: names are not resolved, statements other than CREATE
// TEMPORARY TABLE are not parsed, and nothing here knows what a session has done
// before. Where a text can be read in two ways the answer is the cautious one.
//
// All functions are pure and safe for concurrent use. Texts are what follows the
// COM_QUERY byte and its attributes; they are read only and never kept, except
// where a result says so.
package rewrite
