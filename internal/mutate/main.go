// Mutate shows that the tests of the engine notice when one of its rules is missing. A comment marks each
// filter, gate, index update and rollback; the tool switches them off one at a time, runs the tests, and
// says which test failed. A rule that no test misses is a SURVIVOR, and the run fails. It does not invent
// mutations of its own, and it never writes into the tree: the changed files reach the compiler through
// an overlay. All mutants are compiled at once, into the same test binaries, and $MUTANT says which of them a run is. People
// call it, as `make mutate`; nothing imports it.
//
// # Marks
//
// A mark is a comment in a non-test file, in the lines directly above a statement:
//
//	//mutate: NAME
//	//mutate: NAME -> EXPR
//
// NAME is lower-case words joined by dashes, unique in the tree, and says what is switched off, such as
// filter-taint or index-unbind. Several marks may stand above one statement; each is tried by itself.
//
//	statement             NAME                                NAME -> EXPR
//	if, tagless case      its condition is never true, so     EXPR is the condition
//	                      an else always runs
//	return, =, +=, ...    is skipped                          EXPR is returned, or assigned
//	:=                    (an error)                          EXPR is assigned
//	call, defer, x++,     is skipped                          (an error)
//	loop, switch, ...
//
// EXPR is one line of Go that must have the type of what it replaces. What is switched off is still
// compiled, so that no variable or import is left without a use. The right side of a := is evaluated in its mutant too.
//
// # Verdicts
//
// The tests of the file's own package run first, with -short, then those of the whole tree, and last all of them without -short. A
// test that fails, panics or does not end in time kills the mutant. The exit status is 1 when a mutant survives or does not
// compile, when a mark is wrong, or when the tests fail without any mutation.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// options are the command line. Root is the folder, below the working directory, that is marked and whose
// tests must notice.
type options struct {
	root     string
	choose   *regexp.Regexp
	list     bool
	timeout  time.Duration
	parallel int
}

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{root: "engine", choose: regexp.MustCompile("")}
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Func("run", "try only the marks whose name matches this `regexp`", func(s string) (err error) {
		o.choose, err = regexp.Compile(s)
		return err
	})
	flags.BoolVar(&o.list, "list", false, "list the marks and try none")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "how long the tests of a package may run")
	flags.IntVar(&o.parallel, "p", runtime.GOMAXPROCS(0), "how many marks are tried at once")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: mutate [-list] [-run REGEXP] [-timeout DURATION] [-p N] [FOLDER]")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		o.root = flags.Arg(0)
	}
	return o, nil
}

// run is the command: 0 all killed, 1 not all, 2 wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if err != nil {
		return 2
	}
	marks, err := find(o.root, o.choose)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	t := newTable(stdout, marks)
	if o.list {
		for _, m := range marks {
			t.list(m)
		}
		return 0
	}
	ok, err := try(ctx, o, marks, t)
	if err != nil {
		fmt.Fprintln(stderr, err)
	}
	if err != nil || !ok {
		return 1
	}
	return 0
}
