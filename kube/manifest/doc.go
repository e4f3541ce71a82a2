// Package manifest reads the files that people give to kubectl: YAML and JSON, many documents in one file, lists, folders
// and standard input; and writes single fields of them back, with comments and order as they were.
//
// Input is hostile until it is read: sizes, numbers of documents, nesting and what aliases expand to are bounded, and what
// is over a bound is one error that names the file and the line. It does not know what the objects mean: diagnose/submit
// does. The CLI calls it for `berth check` and `berth whatif`.
package manifest
