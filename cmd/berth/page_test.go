package main

import (
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/berth-dev/berth/internal/chromium"
)

var updatePage = flag.Bool("update-page", false, "write the screenshot of README.md")

// linkIn finds the link to the page in what `berth up` prints.
var linkIn = regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?token=[0-9a-f]+`)

// TestPageShowsAGangStart is the first ten minutes of a new user: the link that `berth up` prints is opened, a gang is submitted with the
// command of README.md, and the page shows it start and says why the other waits.
func TestPageShowsAGangStart(t *testing.T) {
	b := chromium.Open(t, 1280, 860) // before a cluster is started: it may be that there is none
	c := startClusterOf(t, "lab")
	w := &whyWorld{whyCluster: c, story: &whyStory{}}
	b.Navigate(c.link)
	b.Until(`document.querySelector("#age")?.innerText === "live"`)
	b.Until(`document.querySelector(".sum")?.innerText.startsWith("32 GPUs on 5 nodes · 0 % held")`)
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	w.must(t, "berth kubectl apply -f "+filepath.Join(examples, "gang.yaml"))
	b.Until(`document.querySelector(".sum").innerText.startsWith("32 GPUs on 5 nodes · 25 % held")`)
	t.Logf("shown %.1f s after kubectl apply began", time.Since(began).Seconds())
	b.Do(`location.hash = "#fleet?colour=job&sel=kwok-gpu-h100-0"`)
	const one = `/job\/(first|second)/.exec(document.querySelector(".legend")?.innerText)?.[0]` // whichever the scheduler was told of first
	b.Until(`document.querySelector(".detail").innerText.includes(` + one + ` || "neither")`)
	started := b.Text(one)
	waits := map[string]string{"job/first": "job/second", "job/second": "job/first"}[started]
	if *updatePage {
		b.Shoot(filepath.Join("..", "..", "docs", "page", "start.png"))
	}
	b.Do(`location.hash = "#queues"`)
	b.Until(fmt.Sprintf(`document.querySelector("table.line tbody").innerText.includes(%q)`, waits))
	b.Do(`document.querySelector("table.line a").click()`)
	b.Until(`document.querySelector(".sentence") && document.querySelectorAll(".fix").length > 0`)
	if out := b.Text(`performance.getEntriesByType("resource").filter((e) => !e.name.startsWith(location.origin + "/")).map((e) => e.name).join(" ")`); out != "" {
		t.Errorf("requests left the origin: %s", out)
	}
	// The link works once.
	if r, err := http.Get(c.link); err != nil || r.StatusCode != http.StatusForbidden {
		t.Errorf("the link a second time: %v %v", r, err)
	}
}
