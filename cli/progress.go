package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// progress shows people the steps of something slow. On a terminal the step under way is
// shown with its age; elsewhere each step is one line when done.
type progress struct {
	w     io.Writer
	live  bool
	start time.Time

	mu   sync.Mutex
	now  string // the step under way; empty: none
	link string // to the page
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w, live: isTerminal(w), start: time.Now()}
	if p.live {
		go p.tick()
	}
	return p
}

// doing names the step under way.
func (p *progress) doing(step string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = step
	p.paint()
}

// did reports a step as done.
func (p *progress) did(step string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.w, "  %5.1fs  %s\n", time.Since(p.start).Seconds(), step)
	p.now = ""
}

// say tells of something that happened while the cluster runs.
func (p *progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	fmt.Fprintf(p.w, "%s  %s\n", time.Now().Format(time.TimeOnly), line)
}

// page keeps the link for who prints that the cluster is ready.
func (p *progress) page(link string) { p.link = link }

// ready takes the live line away and lets say print.
func (p *progress) ready(say func(seconds float64)) {
	p.stop()
	say(time.Since(p.start).Seconds())
}

// end takes the live line away; the command prints its error itself.
func (p *progress) end(error) { p.stop() }

func (p *progress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.now = ""
}

// tick keeps the age of the step under way moving, for as long as the process lives.
func (p *progress) tick() {
	for range time.Tick(100 * time.Millisecond) {
		p.mu.Lock()
		p.paint()
		p.mu.Unlock()
	}
}

func (p *progress) paint() {
	if p.live && p.now != "" {
		fmt.Fprintf(p.w, eraseLine+"  %5.1fs  %s ...", time.Since(p.start).Seconds(), p.now)
	}
}

func (p *progress) clear() {
	if p.live {
		fmt.Fprint(p.w, eraseLine)
	}
}

// reporter is told how `up` gets on: a person's screen, or the parent of a detached one.
type reporter interface {
	doing(step string)
	did(step string)
	say(line string)                 // what happened, at any time
	page(link string)                // where the page is served
	ready(say func(seconds float64)) // say prints what a person wants to read now
	end(err error)
}

// The words of the pipe between a detached `up` and its parent: one line each.
const (
	wordDoing = "doing "
	wordDid   = "did "
	wordPage  = "page "
	wordReady = "ready"
	wordError = "error "
)

// pipeReporter writes to the parent until the cluster is ready. The parent may go away at
// any time; that is no reason to stop.
type pipeReporter struct{ f *os.File }

func (p pipeReporter) doing(step string) { fmt.Fprintln(p.f, wordDoing+step) }
func (p pipeReporter) did(step string)   { fmt.Fprintln(p.f, wordDid+step) }
func (p pipeReporter) say(line string) {
	fmt.Fprintln(os.Stderr, time.Now().Format(time.RFC3339), line)
}
func (p pipeReporter) page(link string)    { fmt.Fprintln(p.f, wordPage+link) }
func (p pipeReporter) ready(func(float64)) { fmt.Fprintln(p.f, wordReady); p.f.Close() }

func (p pipeReporter) end(err error) {
	if err != nil {
		fmt.Fprintln(p.f, wordError+strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// follow shows what a detached child reports, until it is ready or ends. The error is the
// child's own.
func follow(r io.Reader, p reporter) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case line == wordReady:
			return nil
		case strings.HasPrefix(line, wordDoing):
			p.doing(strings.TrimPrefix(line, wordDoing))
		case strings.HasPrefix(line, wordDid):
			p.did(strings.TrimPrefix(line, wordDid))
		case strings.HasPrefix(line, wordPage):
			p.page(strings.TrimPrefix(line, wordPage))
		case strings.HasPrefix(line, wordError):
			return fmt.Errorf("%s", strings.TrimPrefix(line, wordError))
		}
	}
	return errEndedEarly
}
