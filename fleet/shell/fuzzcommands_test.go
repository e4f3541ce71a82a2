package shell

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

// fuzzCommand runs one built-in command with random arguments, separated by newlines, and random input, for a moment.
// It must not panic, must end when it is told to, must stay within its budget, and must give all of it back.
func fuzzCommand(f *testing.F, name string, seeds ...string) {
	for _, seed := range seeds {
		f.Add(seed, "a b c\nsecond line\n\n\xff\x00end")
		f.Add(seed, strings.Repeat("abc ", 5000))
	}
	f.Fuzz(func(t *testing.T, args, input string) {
		c := newContainer()
		if err := c.FS.WriteFile("/tmp/f", []byte(input), 0o644); err != nil {
			t.Skip()
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, Kill)
		defer cancel()
		var errs output
		start := time.Now()
		status := Run(ctx, &Process{
			Args: append([]string{name}, strings.Split(args, "\n")...), Dir: "/tmp",
			Stdin: strings.NewReader(input), Stdout: io.Discard, Stderr: &errs, Container: c,
		})
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("took %v to end", took)
		}
		if status < 0 || status > 255 || strings.Contains(errs.String(), "internal error") {
			t.Errorf("status %d, stderr %q", status, errs.String())
		}
		if used, _ := c.state.budgets.memory.Used(); used != 0 {
			t.Errorf("%d bytes are still counted", used)
		}
	})
}

func FuzzSed(f *testing.F) {
	fuzzCommand(f, "sed", "s/a/b/g", "-n\n2,/x/p;$!d", "-E\ns/(a+)(b|c)/\\2\\1&/2gp", "y/abc/xyz/\nf", "-i\ns/.*/&&&&/\n/tmp/f", "1i x\n2a y\n3c z", "=;q")
}
func FuzzTr(f *testing.F) {
	fuzzCommand(f, "tr", "a-z\nA-Z", "-d\n[:space:]", "-cs\n[:alnum:]\n\\n", "\u0100-\uffff\nx", "-s\na-c", "a-\\n\n\\\\-z")
}
func FuzzCut(f *testing.F) {
	fuzzCommand(f, "cut", "-c\n1-3,5,9-", "-f\n2,1\n-d\n ", "-b\n-4", "-f\n1-\n-s\n-d\nb", "-c\n99999999999999999999", "-c\n3-1")
}
func FuzzGrep(f *testing.F) {
	fuzzCommand(f, "grep", "a", "-vn\nb", "-o\n[a-c]*", "-E\n(a|b){2,}", "-B\n99999999\nz", "-A\n3\na\nf", "-rc\n.\n/etc", "-wix\nend", "-F\n[")
}
func FuzzSort(f *testing.F) {
	fuzzCommand(f, "sort", "-n", "-ru", "-k\n2,3nr\n-k\n1", "-t\n:\n-k\n3\n/etc/passwd", "-h\n-o\n/tmp/o", "-f\n/tmp/f\n/tmp/f")
}
func FuzzFind(f *testing.F) {
	fuzzCommand(f, "find", "/", ".\n-name\n*f*", "/etc\n-type\nf\n!\n-path\n*x*", "/tmp\n-delete", "/\n-maxdepth\n2\n-mindepth\n-1\n-iname\n[a-", "-print0")
}
func FuzzTar(f *testing.F) {
	fuzzCommand(f, "tar", "c\n.", "xf\n-", "xzf\n/tmp/f", "tf\nf", "czf\n/tmp/a.tgz\n/etc\n/tmp/f", "-cf\n-\n-C\n/etc\npasswd", "xvf\nf\n-C\n/tmp\na")
}
func FuzzPrintf(f *testing.F) {
	fuzzCommand(f, "printf", "%s %d\\n\na\n1", "%*d\n999999999\n1", "%04096d%b%q\n1\n\\0101\n\x01", "%c%c\nxyz", "%e %f %g\n1\nnan", "\\x41\\u00e9\\c", "%-+ #0.5s")
}
func FuzzXargs(f *testing.F) {
	fuzzCommand(f, "xargs", "echo", "-n\n2\necho", "-I\n{}\necho\n{}{}", "-0", "-d\n,\n-t\necho", "-r\nfalse", "-P\n4\nsh\n-c\nexit 255")
}
func FuzzTail(f *testing.F) {
	fuzzCommand(f, "tail", "-n\n2", "-c\n+3", "-n\n+2\nf\nf", "-f\nf", "-5", "-c\n99999999999999", "-n\n0")
}
func FuzzHead(f *testing.F) {
	fuzzCommand(f, "head", "-n\n2", "-c\n-3", "-n\n-2\nf\nf", "-c\n1G\n/dev/zero", "-1")
}
func FuzzText(f *testing.F) {
	for _, name := range []string{"tac", "rev", "wc", "cat", "uniq", "base64", "tee", "md5sum"} {
		f.Add(name, "a\nb\n\nb", "-n")
		f.Add(name, "b c\xff", "-d")
	}
	f.Fuzz(func(t *testing.T, name, input, flag string) {
		c := newContainer()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, Kill)
		defer cancel()
		Run(ctx, &Process{Args: []string{name, flag}, Stdin: strings.NewReader(input), Stdout: io.Discard, Stderr: io.Discard, Container: c})
		if used, _ := c.state.budgets.memory.Used(); used != 0 {
			t.Errorf("%d bytes are still counted", used)
		}
	})
}
func FuzzCurl(f *testing.F) {
	fuzzCommand(f, "curl", "localhost:1", "-d\na\n-H\nx: y\nhttp://localhost:80/f", "-sS\n-m\n1\n-w\n%{http_code}\nhttps://x", "-o\n/tmp/o\n-L\n-I\npod-0")
}
func FuzzNc(f *testing.F) {
	fuzzCommand(f, "nc", "-l\n-p\n80", "localhost\n80", "-z\n-w\n1\nlocalhost\n1")
}
func FuzzLs(f *testing.F) {
	fuzzCommand(f, "ls", "-laR\n/", "-tr\n/bin", "-SF\n/etc\nf", "-d\n.")
}
func FuzzFiles(f *testing.F) {
	fuzzCommand(f, "cp", "-r\n/etc\n/tmp/e", "f\ng", "-a\n/\n/tmp/r", "f\nf")
}
func FuzzStat(f *testing.F)  { fuzzCommand(f, "stat", "f", "-c\n%n %s %a %F\nf") }
func FuzzChmod(f *testing.F) { fuzzCommand(f, "chmod", "u+x,go-w\nf", "-R\n755\n/tmp") }
func FuzzDate(f *testing.F) {
	fuzzCommand(f, "date", "+%Y-%m-%d %H:%M:%S %s %N %j", "-d\n@0\n+%c", "-I\n", "-d\n2026-01-01T00:00:00")
}
func FuzzSeq(f *testing.F) {
	fuzzCommand(f, "seq", "3", "1\n0.5\n9", "-w\n-s\n,\n5\n-2\n-5", "1\n1e300")
}
func FuzzEnv(f *testing.F) {
	fuzzCommand(f, "env", "-i\nA=1\nenv", "-u\nPATH\nenv", "env\nenv\nenv\ntrue")
}
func FuzzTest(f *testing.F) { fuzzCommand(f, "test", "a\n=\nb", "!\n(\n-f\nf\n)\n-a\n1\n-lt\n2") }
func FuzzTimeout(f *testing.F) {
	fuzzCommand(f, "timeout", "1\nsleep\n2", "-s\nKILL\n0.01\nyes", "-k\n1\n1d\ntrue")
}
