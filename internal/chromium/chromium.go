// Package chromium opens pages in a real Chromium, for tests of the page (package web, and cmd/berth on a real cluster). No program
// imports it.
package chromium

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"
)

// Tab is one of a browser of its own. A script that throws fails the test.
type Tab struct {
	context.Context
	T testing.TB
}

// patience is how long something may take to be shown, on a machine that is neither idle nor fast.
const patience = 40 * time.Second

// Open starts a browser. Where there is no Chromium, the test is skipped and says so by name.
func Open(t testing.TB, width, height int) *Tab {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-headless-shell", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil && program == "" {
			program = path
		}
	}
	if program == "" {
		t.Skipf("%s needs Chromium, and none is installed", t.Name())
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WindowSize(width, height),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	all, stop := chromedp.NewExecAllocator(context.Background(), options...)
	tab, closeTab := chromedp.NewContext(all)
	ctx, cancel := context.WithTimeout(tab, 5*time.Minute)
	t.Cleanup(func() { cancel(); closeTab(); stop() })
	b := &Tab{ctx, t}
	if err := chromedp.Do(b); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	thrown := chromedp.Events(b, runtime.ExceptionThrown)
	go func() {
		for e, err := range thrown {
			if err != nil {
				return
			}
			t.Errorf("the page threw: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
		}
	}()
	return b
}

// Before has every page that is opened from now on run a script first.
func (b *Tab) Before(script string) {
	b.T.Helper()
	if _, err := chromedp.Call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script}); err != nil {
		b.T.Fatal(err)
	}
}

// Navigate follows a link.
func (b *Tab) Navigate(link string) {
	b.T.Helper()
	if err := chromedp.Do(b, chromedp.Navigate(link)); err != nil {
		b.T.Fatal(err)
	}
}

// Resize gives the window a size.
func (b *Tab) Resize(width, height int64) {
	b.T.Helper()
	if err := chromedp.Do(b, chromedp.EmulateViewport(width, height)); err != nil {
		b.T.Fatal(err)
	}
}

// Press presses keys one after the other, as a person does; \t, \r and the names of package kb go too.
func (b *Tab) Press(keys string) {
	b.T.Helper()
	if err := chromedp.Do(b, chromedp.KeyEvent(keys)); err != nil {
		b.T.Fatal(err)
	}
}

// Media has the page shown as on another medium, "print" say; "" ends that.
func (b *Tab) Media(medium string) {
	b.T.Helper()
	if _, err := chromedp.Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: medium}); err != nil {
		b.T.Fatal(err)
	}
}

// Do has the page do something.
func (b *Tab) Do(script string) {
	b.T.Helper()
	if _, err := chromedp.Run(b, chromedp.Evaluate[any]("(() => {"+script+"; return 0})()")); err != nil {
		b.T.Fatal(err)
	}
}

// Number is what a JavaScript expression comes to.
func (b *Tab) Number(expression string) float64 {
	b.T.Helper()
	n, err := chromedp.Run(b, chromedp.Evaluate[float64](expression))
	if err != nil {
		b.T.Fatal(err)
	}
	return n
}

// Text is what a JavaScript expression comes to.
func (b *Tab) Text(expression string) string {
	b.T.Helper()
	s, err := chromedp.Run(b, chromedp.Evaluate[string](expression))
	if err != nil {
		b.T.Fatal(err)
	}
	return s
}

// Heap is what the page holds for scripts and the document, in MiB, once what it dropped is gone.
func (b *Tab) Heap() float64 {
	b.T.Helper()
	if _, err := chromedp.Call(b, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
		b.T.Fatal(err)
	}
	use, err := chromedp.Call(b, runtime.GetHeapUsage, cdp.Empty{})
	if err != nil {
		b.T.Fatal(err)
	}
	return (use.UsedSize + use.EmbedderHeapUsedSize + use.BackingStorageSize) / (1 << 20)
}

// Clock counts the processor time of the page's main thread from now on. What it returns tells how much, in milliseconds: unlike the time
// on the wall it does not depend on what else the machine does.
func (b *Tab) Clock() (spent func() float64) {
	b.T.Helper()
	if _, err := chromedp.Call(b, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks}); err != nil {
		b.T.Fatal(err)
	}
	read := func() float64 {
		all, err := chromedp.Call(b, performance.GetMetrics, cdp.Empty{})
		if err != nil {
			b.T.Fatal(err)
		}
		for _, m := range all.Metrics {
			if m.Name == "TaskDuration" {
				return 1000 * m.Value
			}
		}
		b.T.Fatal("Chromium does not tell TaskDuration")
		return 0
	}
	began := read()
	return func() float64 { return read() - began }
}

// Frames are how long the page's main thread worked for each frame while something is done, in milliseconds of processor time, from the
// trace of Chromium itself: scripts, style, layout and painting.
func (b *Tab) Frames(do func()) []float64 {
	b.T.Helper()
	collected, complete := chromedp.Events(b, tracing.DataCollected), chromedp.Events(b, tracing.TracingComplete)
	var t trace
	go func() {
		for e, err := range collected {
			if err != nil {
				return
			}
			for _, v := range e.Value {
				t.add(v)
			}
		}
	}()
	categories := []string{"devtools.timeline", "disabled-by-default-devtools.timeline"}
	if _, err := chromedp.Call(b, tracing.Start, tracing.StartParams{TraceConfig: &tracing.TraceConfig{IncludedCategories: categories}}); err != nil {
		b.T.Fatal(err)
	}
	do()
	if _, err := chromedp.Call(b, tracing.End, cdp.Empty{}); err != nil {
		b.T.Fatal(err)
	}
	for _, err := range complete {
		if err != nil {
			b.T.Fatal(err)
		}
		break
	}
	time.Sleep(500 * time.Millisecond) // nothing says that the last events were handed over
	return t.frames()
}

// Until waits for a JavaScript expression to be true.
func (b *Tab) Until(expression string) {
	b.T.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		ok, err := chromedp.Run(b, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err == nil && ok {
			return
		}
		if time.Now().After(end) {
			text, _ := chromedp.Run(b, chromedp.Evaluate[string]("document.body.innerText.slice(0, 2000)"))
			b.T.Fatalf("never: %s\nthe page reads:\n%s", expression, text)
		}
	}
}

// Shoot writes a picture of the window.
func (b *Tab) Shoot(path string) {
	b.T.Helper()
	time.Sleep(300 * time.Millisecond) // the last frame
	picture, err := chromedp.Run(b, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, picture, 0o644)
	}
	if err != nil {
		b.T.Fatal(err)
	}
}
