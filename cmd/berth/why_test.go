package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"
)

// TestWhy causes the causes in testdata/why on real clusters and asks `berth why`. Every fix that it prints is then run
// by its printed command, each in a world made anew, and must have the outcome that was promised. With -short a third of
// the causes is drawn.
//
// Causes that are told at the same time have clusters of their own: a fix may name what the cluster has, and another
// cause that is over takes its queues away.
func TestWhy(t *testing.T) {
	files, err := filepath.Glob("testdata/why/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	files = drawn(files, 3)
	const together = 3
	clusters := make(chan func() *whyCluster, together)
	for range together {
		clusters <- sync.OnceValue(func() *whyCluster { return startWhyCluster(t) })
	}
	t.Run("causes", func(t *testing.T) {
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".txtar")
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := readWhyStory(t, name, file)
				cluster := <-clusters
				defer func() { clusters <- cluster }()
				if s.Alone {
					s.play(t, startWhyCluster(t))
					return
				}
				s.play(t, cluster())
			})
		}
	})
}

// whyStory is a cause and how to bring it about. $NS is a namespace of its own, and $POOL a name for a pool of its own.
type whyStory struct {
	name    string
	objects string // applied first
	setup   string // a shell script, run then
	undo    string // another, for what is not in the namespace nor the pool
	whyAnswer
}

// whyAnswer is what must be said.
type whyAnswer struct {
	Target string `json:"target"`
	Layer  string `json:"layer"`
	Cause  string `json:"cause"`
	Owner  string `json:"owner"`
	Fixes  int    `json:"fixes"` // at least so many
	Alone  bool   `json:"alone"` // it breaks what others need: a cluster of its own
	// Settled is for fixes after which the work is to be in another state than running or finished: a regular
	// expression for the summary or state.
	Settled string `json:"settled"`
	// Untried is for causes that a Fault keeps up: a fix that assumes that the next pod does better does not come true.
	Untried bool `json:"untried"`
}

func readWhyStory(t *testing.T, name, file string) *whyStory {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &whyStory{name: name}
	for _, f := range a.Files {
		switch f.Name {
		case "objects.yaml":
			s.objects = string(f.Data)
		case "setup.sh":
			s.setup = string(f.Data)
		case "undo.sh":
			s.undo = string(f.Data)
		case "answer.yaml":
			if err := yaml.UnmarshalStrict(f.Data, &s.whyAnswer); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		default:
			t.Fatalf("%s: nobody reads %s", file, f.Name)
		}
	}
	return s
}

// diagnosis is what is read of `berth why -o json`.
type diagnosis struct {
	State, Layer, Cause, Owner, Summary string
	Fixes                               []struct{ Side, Edit, Command, Outcome string }
	Scheduler                           *struct {
		Answers bool
		Cause   string
	}
}

// play brings the cause about as often as there are fixes to try.
func (s *whyStory) play(t *testing.T, c *whyCluster) {
	for i := 0; ; i++ {
		w := &whyWorld{whyCluster: c, story: s, ns: fmt.Sprintf("why-%s-%d", s.name, i)}
		d := w.make(t)
		if s.Untried {
			w.end(t)
			return
		}
		fix := slices.IndexFunc(d.Fixes[min(i, len(d.Fixes)):], func(f struct{ Side, Edit, Command, Outcome string }) bool { return f.Command != "" })
		if fix < 0 {
			w.end(t)
			return
		}
		i += fix
		w.try(t, d, i)
		w.end(t)
		if i+1 >= len(d.Fixes) {
			return
		}
	}
}

// whyWorld is one telling of a story.
type whyWorld struct {
	*whyCluster
	story *whyStory
	ns    string
}

// whyPatience is how long a cause may take to show, and a fix to work.
const whyPatience = 90 * time.Second

// awaits lets scripts wait: await COMMAND tries until it succeeds.
const awaits = `await() {
	for i in $(seq 1 200); do
		if eval "$1" >/dev/null 2>&1; then return 0; fi
		sleep 0.3
	done
	echo "never: $1" >&2
	return 1
}
`

func (w *whyWorld) make(t *testing.T) diagnosis {
	t.Helper()
	w.must(t, "kubectl create namespace $NS")
	if w.story.objects != "" {
		w.must(t, "kubectl apply -n $NS -f - <<'BERTH_EOF'\n"+w.expand(w.story.objects)+"\nBERTH_EOF\n")
	}
	if w.story.setup != "" {
		w.must(t, awaits+w.story.setup)
	}
	var d diagnosis
	var out string
	for end := time.Now().Add(whyPatience); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		if out = w.ask(&d); w.story.right(&d) {
			start := time.Now()
			w.ask(&d)
			if took := time.Since(start); w.story.right(&d) {
				t.Logf("%s: %s in %.2f s, %d fixes", w.ns, d.Cause, took.Seconds(), len(d.Fixes))
				w.agree(t)
				w.pageAgrees(t)
				return d
			}
		}
	}
	t.Fatalf("berth why says %s %s %s with %d fixes, want %s %s %s with %d\n%s", d.Layer, d.Cause, d.Owner, len(d.Fixes), w.story.Layer, w.story.Cause, w.story.Owner, w.story.Fixes, out)
	return d
}

// agree holds what `berth why` says of every workload that waits for Berth against what the live scheduler itself answers.
func (w *whyWorld) agree(t *testing.T) {
	t.Helper()
	const path = "/apis/answers.berth.dev/v1alpha1/namespaces/$NS/workloads"
	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Cause    string
		}
	}
	out, err := w.sh(`kubectl get --raw "` + path + `?state=waiting"`)
	if err != nil || json.Unmarshal([]byte(out), &list) != nil {
		t.Errorf("the scheduler does not answer: %v\n%s", err, out)
	}
	for _, item := range list.Items {
		var live struct {
			Cause string
			Pods  struct{ Names []string }
		}
		var d diagnosis
		agreed := false
		for range 5 { // both may change in between
			raw, err := w.sh(`kubectl get --raw "` + path + `/` + item.Metadata.Name + `"`)
			if err != nil || json.Unmarshal([]byte(raw), &live) != nil || live.Cause == "" || len(live.Pods.Names) == 0 {
				agreed = true // it is over
				break
			}
			d = diagnosis{}
			out, _ = w.sh("berth why pod/" + live.Pods.Names[0] + " -n $NS -o json")
			if json.Unmarshal([]byte(out), &d) == nil && agrees(live.Cause, &d) {
				agreed = true
				break
			}
			time.Sleep(300 * time.Millisecond)
		}
		if !agreed {
			t.Errorf("%s: the scheduler says that %s waits for %s, and berth why\n%s", w.ns, item.Metadata.Name, live.Cause, out)
		}
	}
}

// pageAgrees holds the page to the commands, in long runs: about the story's own work in every telling, and about all else in the first.
func (w *whyWorld) pageAgrees(t *testing.T) {
	t.Helper()
	if testing.Short() {
		return
	}
	p, err := w.page()
	if err != nil {
		t.Error(err)
		return
	}
	questions := []question{p.why(w.story.Target, w.ns)}
	if strings.HasSuffix(w.ns, "-0") {
		questions = append(questions, p.others()...)
	}
	for _, q := range questions {
		if diff, _ := p.agrees(q); diff != "" {
			t.Errorf("%s: %s", w.ns, diff)
		}
	}
}

// agrees says whether the diagnosis knows the scheduler's cause and names the same, or what is behind it: why there is no
// room, or why members or claims are missing.
func agrees(live string, d *diagnosis) bool {
	if d.Scheduler == nil || !d.Scheduler.Answers || d.Scheduler.Cause != live {
		return false
	}
	switch live {
	case "cluster-full", "fragmented", "topology-fragmented", "larger-than-any-node", "no-matching-node", "cpu-or-memory-stranded", "search-budget":
		return d.Cause != "healthy" && d.Cause != "unknown"
	case "gang-incomplete", "claims-not-ready":
		return d.Cause != "healthy" && d.Cause != "unknown" || d.Layer == "none"
	}
	return d.Cause == live
}

func (a *whyAnswer) right(d *diagnosis) bool {
	return d.Layer == a.Layer && d.Cause == a.Cause && d.Owner == a.Owner && len(d.Fixes) >= a.Fixes
}

// ask fills in what `berth why` says of the target, and returns the text.
func (w *whyWorld) ask(d *diagnosis) string {
	*d = diagnosis{}
	out, _ := w.sh("berth why " + w.story.Target + " -n $NS -o json")
	if json.Unmarshal([]byte(out), d) != nil {
		return out
	}
	return out
}

// try runs the fix by its command and waits for what it promised.
func (w *whyWorld) try(t *testing.T, d diagnosis, i int) {
	t.Helper()
	fix := d.Fixes[i]
	w.must(t, fix.Command)
	var now diagnosis
	var out string
	for end := time.Now().Add(whyPatience); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		out = w.ask(&now)
		if now.State == "running" || now.State == "succeeded" || w.story.Settled != "" && strings.Contains(now.State+" "+now.Cause, w.story.Settled) {
			return
		}
	}
	t.Errorf("fix %q promised %q; after\n%s\nit is\n%s", fix.Edit, fix.Outcome, fix.Command, out)
}

func (w *whyWorld) end(t *testing.T) {
	t.Helper()
	if w.story.undo != "" {
		w.must(t, awaits+w.story.undo)
	}
	w.must(t, "kubectl delete namespace $NS --wait=false; kubectl delete pool $NS --ignore-not-found --wait=false")
}

func (w *whyWorld) expand(text string) string {
	return strings.NewReplacer("$NS", w.ns, "$POOL", w.ns).Replace(text)
}

func (w *whyWorld) sh(script string) (string, error) {
	cmd := exec.Command("sh", "-e", "-c", script)
	cmd.Env = append(slices.Clone(w.env), "NS="+w.ns, "POOL="+w.ns)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, errs.String())
	}
	return out.String(), err
}

func (w *whyWorld) must(t *testing.T, script string) {
	t.Helper()
	if out, err := w.sh(script); err != nil {
		t.Fatalf("%s: %s\n%v\n%s", w.ns, script, err, out)
	}
}

// whyCluster is a running cluster, and the environment that reaches it: with kubectl in its path.
type whyCluster struct {
	env  []string
	link string // to the page
	page func() (*page, error)
	run  func(in string, args ...string) (out, err []byte) // of the command line
}

func startWhyCluster(t *testing.T) *whyCluster {
	t.Helper()
	fleet, err := filepath.Abs("testdata/why/fleet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return startClusterOf(t, fleet)
}

// startClusterOf starts a cluster with a fleet file or preset, and more arguments of berth up.
func startClusterOf(t *testing.T, fleet string, more ...string) *whyCluster {
	t.Helper()
	dir := t.TempDir()
	home := filepath.Join(dir, "clusters")
	t.Cleanup(func() { stopAll(home) })
	c := &whyCluster{env: append(os.Environ(), "BERTH_HOME="+home, "HOME="+dir, "PATH="+commandsIn(t, dir)+":"+os.Getenv("PATH"))}
	cmd := exec.Command("berth", append([]string{"up", "--detach", "--ephemeral", "--fleet", fleet}, more...)...)
	cmd.Env = c.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("berth up: %v\n%s", err, out)
	}
	if c.link = linkIn.FindString(string(out)); c.link == "" {
		t.Fatalf("berth up prints no link\n%s", out)
	}
	c.run = func(in string, args ...string) ([]byte, []byte) {
		cmd := exec.Command("berth", args...)
		var out, said bytes.Buffer
		cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.env, strings.NewReader(in), &out, &said
		_ = cmd.Run() // some answers are an exit code too
		return out.Bytes(), said.Bytes()
	}
	c.page = sync.OnceValues(func() (*page, error) { return openPage(c.link, c.run) })
	return c
}

// commandsIn makes a folder with a kubectl, beside the berth that tests have in their path.
func commandsIn(t *testing.T, dir string) string {
	t.Helper()
	bin := filepath.Join(dir, "bin")
	err := errors.Join(os.MkdirAll(bin, 0o700), os.WriteFile(filepath.Join(bin, "kubectl"), []byte("#!/bin/sh\nexec berth kubectl \"$@\"\n"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	return bin
}
