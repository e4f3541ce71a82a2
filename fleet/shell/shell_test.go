package shell

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRun covers the ways to start a command.
func TestRun(t *testing.T) {
	c := newContainer()
	c.Programs = map[string]Program{
		"python3": func(_ context.Context, p *Process) int {
			data, _ := io.ReadAll(p.Stdin)
			fmt.Fprintf(p.Stdout, "%q in %s read %q env %q\n", p.Args, p.Dir, data, p.Env)
			return 9
		},
		"arch":  func(_ context.Context, p *Process) int { fmt.Fprintln(p.Stdout, "sparc"); return 0 },
		"crash": func(context.Context, *Process) int { panic("boom") },
	}
	write := func(name, text string) {
		t.Helper()
		if err := c.FS.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("/app/run.sh", "#!/bin/sh\necho \"$0 $1 $PWD\"\nexit 5\n")
	write("/app/train.py", "#!/usr/bin/env python3\nprint(1)\n")
	write("/app/plain", "echo plain $1\n")
	write("/app/binary", "\x7fELF\x00\x01\n")
	env := "[\"PATH=" + defaultPath + "\" \"HOME=/root\"]"
	for _, tc := range []struct {
		name  string
		stdin string
		args  []string
		want  result
	}{
		{"built-in", "", []string{"echo", "a  b", "$HOME"}, result{Stdout: "a  b $HOME\n"}},
		{"by path", "", []string{"/bin/echo", "x"}, result{Stdout: "x\n"}},
		{"program", "in", []string{"python3", "-c", "x"}, result{Stdout: `["python3" "-c" "x"] in / read "in" env ` + env + "\n", Status: 9}},
		{"program by any path", "", []string{"/opt/conda/bin/python3"}, result{Stdout: `["/opt/conda/bin/python3"] in / read "" env ` + env + "\n", Status: 9}},
		{"program hides built-in", "", []string{"arch"}, result{Stdout: "sparc\n"}},
		{"program that panics", "", []string{"crash"}, result{Stderr: "crash: internal error: boom\n", Status: 2}},
		{"script", "", []string{"/app/run.sh", "arg"}, result{Stdout: "/app/run.sh arg /\n", Status: 5}},
		{"script for a program", "", []string{"/app/train.py", "-n", "1"}, result{Stdout: `["python3" "/app/train.py" "-n" "1"] in / read "" env ` + env + "\n", Status: 9}},
		{"script without shebang", "", []string{"/app/plain", "x"}, result{Stdout: "plain x\n"}},
		{"binary", "", []string{"/app/binary"}, result{Stderr: "sh: /app/binary: Exec format error\n", Status: 126}},
		{"sh with a file", "", []string{"sh", "/app/run.sh", "y"}, result{Stdout: "/app/run.sh y /\n", Status: 5}},
		{"sh with a missing file", "", []string{"sh", "/nope"}, result{Stderr: "sh: can't open '/nope': No such file or directory\n", Status: 127}},
		{"sh -c with a name", "", []string{"sh", "-c", "echo $0 $1", "me", "too"}, result{Stdout: "me too\n"}},
		{"sh -euxo pipefail", "", []string{"bash", "-euxo", "pipefail", "-c", "x=1; set +x; false | true; echo no"}, result{Stderr: "+ x=1\n+ set +x\n", Status: 1}},
		{"bash -lc", "", []string{"bash", "-lc", "echo login"}, result{Stdout: "login\n"}},
		{"bad option", "", []string{"sh", "-Z"}, result{Stderr: "sh: illegal option -Z\n", Status: 2}},
		{"script on stdin", "echo one; read x\nthe line\necho \"$x\" $#\nexit 3\necho no\n", []string{"sh", "-s", "p"}, result{Stdout: "one\nthe line 1\n", Status: 3}},
		{"several lines on stdin", "if true\nthen\necho yes\nfi\ncat <<E\nbody\nE\nf() {\necho f\n}\nf", []string{"sh"}, result{Stdout: "yes\nbody\nf\n"}},
		{"syntax error on stdin", "echo ok\nfi\necho no\n", []string{"sh"}, result{Stdout: "ok\n", Stderr: "sh: syntax error: 2:1: `fi` can only be used to end an `if`\n", Status: 2}},
		{"not found", "", []string{"nope"}, result{Stderr: "sh: nope: not found\n", Status: 127}},
		{"a directory", "", []string{"/etc"}, result{Stderr: "sh: /etc: Permission denied\n", Status: 126}},
		{"nothing", "", nil, result{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, runIn(t, c, tc.stdin, tc.args...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestKnown(t *testing.T) {
	c := newContainer()
	c.Programs = map[string]Program{"nvidia-smi": nil, "torchrun": func(context.Context, *Process) int { return 0 }}
	if err := c.FS.WriteFile("/app/run.sh", []byte("echo"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.FS.WriteFile("/app/data", []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{
		"sh": true, "/bin/sh": true, "/usr/bin/env": true, "sleep": true, "torchrun": true, "/venv/bin/torchrun": true, "/app/run.sh": true,
		"nvidia-smi": false, "nginx": false, "/app/data": false, "/app": false, "/nope": false, "": false, "run.sh": false,
	}
	got := map[string]bool{}
	for name := range want {
		got[name] = c.Known(name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestInit checks a container whose first process is something else.
func TestInit(t *testing.T) {
	var sent []Signal
	c := newContainer()
	c.Init = &Init{Args: []string{"python", "train.py"}, Signal: func(s Signal) { sent = append(sent, s) }}
	got := runIn(t, c, "", "sh", "-c", `echo $$; ps; tr '\0' ' ' < /proc/1/cmdline; kill 1; kill -0 1; kill -9 1`)
	want := result{Stdout: "2\nPID   USER     TIME  COMMAND\n    1 root      0:00 python train.py\n" +
		"    2 root      0:00 sh -c echo $$; ps; tr '\\0' ' ' < /proc/1/cmdline; kill 1; kill -0 1; kill -9 1\n    3 root      0:00 ps\npython train.py "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Signal{Terminate, Kill}, sent); diff != "" {
		t.Errorf("signals (-want +got):\n%s", diff)
	}
}

// TestOrdinaryScripts checks that the estimates of what expansions take leave room for what people write.
func TestOrdinaryScripts(t *testing.T) {
	for script, want := range map[string]string{
		`: "${A:=1}" "${B:=2}" "${C:=3}" "${D:=4}" "${E:=5}" "${F:=$A$B}" ${G:=$(echo x)}; echo $A$B$C$D$E$F$G$A$A$A`: "1234512x111\n",
		`for i in $(seq 10000); do :; done; echo $i`:                                                                  "10000\n",
		`x=$(seq 100000); echo "${#x}"; set -- $x; echo $#`:                                                           "588894\n100000\n",
		`x=$(head -c 200000 /dev/zero | tr '\0' a); y=${x//a/bb}; echo ${#y}`:                                         "400000\n",
		`p=/a/b/c.tar.gz; echo ${p##*/} ${p%.*} ${p%%.*} ${p/a/x} ${p^^} ${p:1:3}`:                                    "c.tar.gz /a/b/c.tar /a/b/c /x/b/c.tar.gz /A/B/C.TAR.GZ a/b\n",
		`seq 100000 | sort -rn | head -n 1; seq 100000 | tac | tail -n 1`:                                             "100000\n1\n",
		`i=0; while [ $i -lt 3000 ]; do i=$((i+1)); a[$i]=$i; done; echo ${#a[@]}`:                                    "3000\n",
		`f() { [ $1 -eq 0 ] || f $(($1-1)); }; f 300; echo deep`:                                                      "deep\n",
		`cat <<E | wc -l
$(seq 20000)
E`: "20000\n",
	} {
		if got := sh(t, script); got.Stdout != want {
			t.Errorf("%s\nprinted %q, %q, %d; want %q", script, got.Stdout, got.Stderr, got.Status, want)
		}
	}
}

// TestLimits checks that what could harm the process around a container is refused. Each of
// these once ended a shell like this one with a stack overflow or without memory.
func TestLimits(t *testing.T) {
	many := func(s string, n int) string { return strings.Repeat(s, n) }
	for _, tc := range []struct{ name, script, wantErr string }{
		{"recursion", `f() { f; }; f`, "maximum nesting level"},
		{"mutual recursion", `f() { $(f); }; f`, "maximum nesting level"},
		{"eval recursion", `x='eval "$x"'; eval "$x"`, "nesting"},
		{"source recursion", `echo '. /tmp/s' > /tmp/s; . /tmp/s`, "nesting"},
		{"recursion through processes", `echo 'sh /tmp/s' > /tmp/s; sh /tmp/s`, "nesting"},
		{"open parentheses", many("(", 300000), "nesting too deep"},
		{"open substitutions", many("echo $(", 100000), "nesting too deep"},
		{"open arithmetic", "echo $((" + many("(", 200000), "nesting too deep"},
		{"open braces", many("{ ", 200000), "nesting too deep"},
		{"open expansions", "echo " + many("${a:-", 100000), "nesting too deep"},
		{"open ifs", many("if ", 200000), "nesting too deep"},
		{"open quotes", many(`"$(`, 100000), "nesting too deep"},
		{"long list", many(": && ", 100000) + ":", "out of memory"},
		{"long pipeline", many(": | ", 100000) + ":", "out of memory"},
		{"long sum", "echo $((" + many("1+", 100000) + "1))", "nesting too deep"},
		{"deep test", `[ ` + many("'(' ", 50000) + `x ]`, "nesting too deep"},
		{"eval of open parentheses", `x='((('; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do x=$x$x; done; eval "$x"`, "nesting too deep"},
		{"large script", many(":\n", 600000), "script too large"},
		{"growing variable", `x=x; while :; do x=$x$x; done`, "cannot allocate memory"},
		{"growing array", `while :; do a+=(xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx "${a[@]}"); done`, "cannot allocate memory"},
		{"many variables", `x=$(head -c 1000000 /dev/zero | tr '\0' x); for i in a b c d e f g h i j k l m n o p q r s t u v w x y z; do eval "v$i=\$x"; done`, "cannot allocate memory"},
		{"large substitution", `x=$(yes)`, "cannot allocate memory"},
		{"replacement", `x=$(head -c 100000 /dev/zero | tr '\0' x); y=${x//x/$x}`, "cannot allocate memory"},
		{"braces", `x=$(head -c 100000 /dev/zero | tr '\0' x); echo $x{1..10000} >/dev/null`, "cannot allocate memory"},
		{"many braces", `echo {1..99999999}`, "brace expansion would exceed"},
		{"printf width", `printf %999999999d 1`, "bad format directive"},
		{"full disk", `yes > /tmp/x`, "No space left on device"},
		{"full disk of files", `cd /tmp; while touch f$((i++)); do :; done 2>/dev/null & p=$!; yes > /tmp/x; kill $p`, "No space left on device"},
		{"endless line", `yes | tr -d '\n' | sort`, "line too long"},
		{"fork bomb", `f() { f | f & }; f; sleep 0.5`, "can't fork"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newContainer()
			if err := c.FS.WriteFile("/script", []byte(tc.script), 0o755); err != nil {
				t.Fatal(err)
			}
			got := runIn(t, c, "", "sh", "/script")
			if !strings.Contains(got.Stderr, tc.wantErr) {
				t.Errorf("status %d, stderr %.300q, want %q", got.Status, got.Stderr, tc.wantErr)
			}
		})
	}
}

// TestSharedVolume checks mounts: shared, read-only, replaced while in use.
func TestSharedVolume(t *testing.T) {
	config, scratch := NewVolume(0), NewVolume(2048)
	replace := func(text string) {
		t.Helper()
		if err := config.Replace(map[string]Content{"app.conf": {Data: []byte(text), Mode: 0o440}, "sub/x": {}}); err != nil {
			t.Fatal(err)
		}
	}
	replace("v1\n")
	a, b := newContainer(), newContainer()
	for _, c := range []*Container{a, b} {
		if err := c.FS.Mount("/etc/config", config, true); err != nil {
			t.Fatal(err)
		}
		if err := c.FS.Mount("/scratch", scratch, false); err != nil {
			t.Fatal(err)
		}
	}
	steps := []struct {
		c    *Container
		do   func()
		cmd  string
		want result
	}{
		{a, nil, "cat /etc/config/app.conf; ls /etc/config; echo x > /etc/config/app.conf", result{"v1\napp.conf\nsub\n", "sh: can't create /etc/config/app.conf: Read-only file system\n", 1}},
		{a, nil, "rm -r /etc/config/sub; touch /etc/config/y; mkdir /etc/config/z; mv /etc/config/app.conf /tmp", result{"",
			"rm: can't remove '/etc/config/sub': Read-only file system\ntouch: can't touch '/etc/config/y': Read-only file system\n" +
				"mkdir: can't create directory '/etc/config/z': Read-only file system\nmv: can't rename '/etc/config/app.conf': Read-only file system\n", 1}},
		{b, func() { replace("v2\n") }, "cat /etc/config/app.conf; echo hello > /scratch/f; [ -w /etc/config ]", result{"v2\n", "", 1}},
		{a, nil, "cat /scratch/f; mv /scratch/f /tmp/f; ls /scratch; cat /tmp/f; rm -r /scratch", result{"hello\nhello\n", "rm: can't remove '/scratch': Device or resource busy\n", 1}},
		{b, nil, "ls /scratch; head -c 3000 /dev/zero > /scratch/big", result{"", "head: /dev/zero: No space left on device\n", 1}},
	}
	for _, s := range steps {
		if s.do != nil {
			s.do()
		}
		if diff := cmp.Diff(s.want, runIn(t, s.c, "", "sh", "-c", s.cmd)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.cmd, diff)
		}
	}
}
