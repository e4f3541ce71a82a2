package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestDocs plays every console block of the README and of docs: what stands behind "$ " is run, in order, and what
// follows is what it prints, but for what is new each time (ages, names that Kubernetes makes up, addresses). A page is
// one session in an empty home. "..." stands for any text, and on a line of its own for any lines. A page may say in
// comments, which readers do not see, what its blocks need:
//
//	<!-- first: COMMAND -->     until COMMAND succeeds, before the next block
//	<!-- varies: REGEXP -->     on this page, texts that match are alike
//
// With -short the README is played, and a third of the other pages, which are drawn.
func TestDocs(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append([]string{filepath.Join(root, "README.md")}, drawn(pages, 3)...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p := readPage(string(text))
		if len(p.steps) == 0 {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".md"), func(t *testing.T) {
			t.Parallel()
			p.play(t, root)
		})
	}
}

// docPage is what is to be played of a page.
type docPage struct {
	steps  []docStep
	varies []*regexp.Regexp
}

// docStep is one command of a page.
type docStep struct {
	line    int
	command string
	want    []string // what it prints; nil: nothing is shown
}

var docDirective = regexp.MustCompile(`^<!-- (first|varies): (.*) -->$`)

// readPage finds the blocks. A block without a "$ " line is no console's.
func readPage(text string) docPage {
	var p docPage
	fenced, console, begun := false, false, false
	for i, line := range strings.Split(text, "\n") {
		if m := docDirective.FindStringSubmatch(line); m != nil && !fenced {
			switch m[1] {
			case "first":
				p.steps = append(p.steps, docStep{line: i + 1, command: m[2]})
			case "varies":
				p.varies = append(p.varies, regexp.MustCompile(m[2]))
			}
			continue
		}
		if strings.HasPrefix(line, "```") {
			fenced, console, begun = !fenced, line == "```" || line == "```console", false
			continue
		}
		command, ok := strings.CutPrefix(line, "$ ")
		switch {
		case !fenced || !console:
		case ok:
			p.steps = append(p.steps, docStep{line: i + 1, command: command})
			begun = true
		case begun:
			last := &p.steps[len(p.steps)-1]
			last.want = append(last.want, line)
		}
	}
	for i := range p.steps {
		p.steps[i].want = trimBlank(p.steps[i].want)
	}
	return p
}

func trimBlank(lines []string) []string {
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	if len(lines) == 0 {
		return nil
	}
	return lines
}

// docPatience is how long a command may take to print what it should, once or again; docAttempt bounds each time.
const docPatience, docAttempt = 2 * time.Minute, time.Minute

func (p *docPage) play(t *testing.T, root string) {
	dir := t.TempDir()
	home := filepath.Join(dir, ".local", "share", "berth")
	if err := os.Symlink(filepath.Join(root, "examples"), filepath.Join(dir, "examples")); err != nil {
		t.Fatal(err)
	}
	bin := commandsIn(t, dir)
	t.Cleanup(func() { stopAll(home) })
	env := append(os.Environ(), "HOME="+dir, "TZ=UTC", "BERTH_HOME=", "XDG_DATA_HOME=", "KUBECONFIG=", "PATH="+bin+":"+os.Getenv("PATH"))
	for _, s := range p.steps {
		start := time.Now()
		p.step(t, s, dir, env)
		if took := time.Since(start); took > 5*time.Second {
			t.Logf("line %d took %.1f s: %s", s.line, took.Seconds(), s.command)
		}
		if t.Failed() {
			found, _ := shellOut(t, docFound, dir, env)
			t.Log("the cluster at that time:\n" + found)
			return
		}
	}
}

// docFound shows what a page's cluster looks like.
const docFound = `berth kubectl get pods -A -o wide; berth kubectl get events -A --sort-by=.lastTimestamp | tail -40; tail -n 40 ~/.local/share/berth/*/*.log`

// step runs a command until it prints what it should, or where nothing is shown until it succeeds.
func (p *docPage) step(t *testing.T, s docStep, dir string, env []string) {
	t.Helper()
	command := asPlayed(s.command)
	if command == "" {
		return
	}
	var out, why, first string
	for end := time.Now().Add(docPatience); ; time.Sleep(300 * time.Millisecond) {
		var code int
		out, code = shellOut(t, command, dir, env)
		switch {
		case s.want == nil && (code == 0 || code == 1 && answers.MatchString(command)):
			return
		case s.want == nil:
			why = fmt.Sprintf("exit code %d", code)
		default:
			if why = p.differs(s.want, out); why == "" {
				return
			}
			first = cmp.Or(first, why)
		}
		if time.Now().After(end) {
			if first != "" && first != why {
				why = "at first " + first + "\nand at last " + why
			}
			t.Errorf("line %d: $ %s\n%s\n%s", s.line, s.command, why, out)
			return
		}
	}
}

// answers are commands whose exit code 1 says that something waits.
var answers = regexp.MustCompile(`^berth (why|jobs)\b|&& berth why\b`)

var makeUp = regexp.MustCompile(`^make up(?: ARGS=(?:"([^"]*)"|(\S+)))?`)

// asPlayed is the command as it is run here: make up builds first, which the test has done, and one cluster makes way
// for the next. "": nothing to run.
func asPlayed(command string) string {
	if strings.HasPrefix(command, "alias ") {
		return ""
	}
	if m := makeUp.FindStringSubmatch(command); m != nil {
		command = "berth up " + cmp.Or(m[1], m[2]) + command[len(m[0]):]
	}
	if strings.HasPrefix(command, "berth up ") && !strings.Contains(command, "--name") {
		command = "berth down --purge >/dev/null 2>&1; " + command
	}
	return command
}

// shellOut returns what the command prints, progress aside.
func shellOut(t *testing.T, command, dir string, env []string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), docAttempt)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", command)
	c.Dir, c.Env = dir, env
	c.WaitDelay = time.Second
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return styles.ReplaceAllString(out.String(), ""), c.ProcessState.ExitCode()
}

// styles are a terminal's: the header of nvidia-smi topo is underlined.
var styles = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// volatile are texts that are new each time, and what stands for them.
var volatile = []struct {
	form *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`sha256:[0-9a-f]{64}`), "SHA"},
	{regexp.MustCompile(`\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| UTC)`), "TIME"},
	{regexp.MustCompile(`\b20\d{6}T\d{6}Z`), "TIME"},
	{regexp.MustCompile(`[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d 20\d\d`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d(:\d\d)?\b`), "CLOCK"},
	{regexp.MustCompile(`\b(\d{1,3}\.){3}\d{1,3}(:\d+)?\b`), "ADDRESS"},
	{regexp.MustCompile(`#[0-9a-f]{6,}`), "MARK"},
	{regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b`), "-HASH-RANDOM"},
	{regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}\b`), "-RANDOM"},
	{regexp.MustCompile(`\b\d+(\.\d+)? (bytes|KiB|MiB)\b`), "SIZE"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ms|s|m|h|d)(\d+[smh])*\b`), "AGE"},
}

// plain is the text without what is new each time, with single spaces.
func (p *docPage) plain(line string) string {
	line = strings.Join(strings.Fields(line), " ")
	for _, form := range p.varies {
		line = form.ReplaceAllString(line, "VARIES")
	}
	for _, v := range volatile {
		line = v.form.ReplaceAllString(line, v.as)
	}
	return line
}

// differs says how the output is not what the page shows; "": it is.
func (p *docPage) differs(want []string, out string) string {
	lines := trimBlank(strings.Split(out, "\n"))
	for i := range lines {
		lines[i] = p.plain(lines[i])
	}
	form := "^"
	for _, line := range want {
		if strings.TrimSpace(line) == "..." {
			form += `(?:.*\n)*?`
			continue
		}
		form += strings.ReplaceAll(regexp.QuoteMeta(p.plain(line)), `\.\.\.`, `.*`) + `\n`
	}
	if regexp.MustCompile(form + "$").MatchString(strings.Join(lines, "\n") + "\n") {
		return ""
	}
	shown := slices.Clone(want)
	for i := range shown {
		shown[i] = p.plain(shown[i])
	}
	return "the page shows\n" + strings.Join(shown, "\n") + "\nand it prints\n" + strings.Join(lines, "\n") + "\nin full"
}
