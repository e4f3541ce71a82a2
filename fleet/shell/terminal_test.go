package shell

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestTerminal types into a shell and checks the screen and the status.
func TestTerminal(t *testing.T) {
	for _, tc := range []struct {
		name   string
		typed  []string // with a second between
		screen string
		status int
	}{
		{"a command", []string{"echo hi\r", "exit 3\r"}, "# echo hi\r\nhi\r\n# exit 3\r\n", 3},
		{"end of input", []string{"false\r", "\x04"}, "# false\r\n# ", 1},
		{"editing", []string{"ecj\x7fho one\x08\x08\x08two xyz\x17three\r", "junk\x15exit\r"},
			"# ecj\b \bho one\b \b\b \b\b \btwo xyz\b \b\b \b\b \bthree\r\ntwo three\r\n# junk\b \b\b \b\b \b\b \bexit\r\n", 0},
		{"several lines", []string{"for i in 1 2\r", "do echo $i\r", "done\r", "exit\r"}, "# for i in 1 2\r\n> do echo $i\r\n> done\r\n1\r\n2\r\n# exit\r\n", 0},
		{"syntax error", []string{"fi\r", "echo on\r", "exit\r"}, "# fi\r\nsh: syntax error: 1:1: `fi` can only be used to end an `if`\r\n# echo on\r\non\r\n# exit\r\n", 0},
		{"interrupted command", []string{"sleep 100; echo no\r", "\x03", "echo $?\r", "exit\r"}, "# sleep 100; echo no\r\n^C\r\n# echo $?\r\n130\r\n# exit\r\n", 0},
		{"interrupted loop", []string{"while :; do sleep 1; done\r", "\x03", "exit\r"}, "# while :; do sleep 1; done\r\n^C\r\n# exit\r\n", 130},
		{"interrupted line", []string{"echo not run", "\x03", "echo run\r", "exit\r"}, "# echo not run^C\r\n# echo run\r\nrun\r\n# exit\r\n", 0},
		{"interrupted in the middle", []string{"if true\r", "\x03", "echo run\r", "exit\r"}, "# if true\r\n> ^C\r\n# echo run\r\nrun\r\n# exit\r\n", 0},
		{"reading", []string{"read x\r", "typed in\r", "echo $x; tty; cat\r", "to cat\r", "\x04", "exit\r"},
			"# read x\r\ntyped in\r\n# echo $x; tty; cat\r\ntyped in\r\n/dev/tty\r\nto cat\r\nto cat\r\n# exit\r\n", 0},
		{"errors and exit in a line", []string{"nope; test -t 0 && test -t 1 && echo tty; exit 4; echo no\r"}, "# nope; test -t 0 && test -t 1 && echo tty; exit 4; echo no\r\nsh: nope: not found\r\ntty\r\n", 4},
		{"arrow keys", []string{"\x1b[A\x1b[Decho ok\r", "exit\r"}, "# echo ok\r\nok\r\n# exit\r\n", 0},
		{"unset variable does not end it", []string{"set -u; echo $nope\r", "echo on\r", "exit\r"}, "# set -u; echo $nope\r\nsh: nope: unbound variable\r\n# echo on\r\non\r\n# exit\r\n", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keys, typing := io.Pipe()
				var screen output
				go func() {
					for _, text := range tc.typed {
						time.Sleep(time.Second)
						_, _ = io.WriteString(typing, text)
					}
				}()
				status := Run(t.Context(), &Process{Args: []string{"sh"}, Stdin: keys, Stdout: &screen, Container: newContainer(), TTY: true})
				if diff := cmp.Diff(tc.screen, screen.String()); diff != "" {
					t.Errorf("screen (-want +got):\n%s", diff)
				}
				if status != tc.status {
					t.Errorf("status %d, want %d", status, tc.status)
				}
				keys.Close()
				typing.Close()
			})
		})
	}
}

// TestTerminalCommand checks a terminal without a shell.
func TestTerminalCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, typing := io.Pipe()
		var screen output
		go func() {
			_, _ = io.WriteString(typing, "line\r")
			time.Sleep(time.Second)
			_, _ = io.WriteString(typing, "\x03")
		}()
		status := Run(t.Context(), &Process{Args: []string{"cat"}, Stdin: keys, Stdout: &screen, Container: newContainer(), TTY: true})
		if diff := cmp.Diff("line\r\nline\r\n^C\r\n", screen.String()); diff != "" || status != 130 {
			t.Errorf("status %d, screen (-want +got):\n%s", status, diff)
		}
		typing.Close()
	})
}
