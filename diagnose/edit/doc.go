// Package edit holds changes that might help work to start: what a person would do, as objects and JSON patch operations,
// so that it can be tried, and the command that does the same. After returns the facts as they would be once edits are
// made; the facts themselves stay as they are. Whether an edit helps is not decided here: package diagnose asks the
// checks and the engine again. Checks make edits.
package edit
