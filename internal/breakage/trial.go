package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// candidate is a mutation that could be made in any cell.
type candidate struct {
	index int
	kind  kind
	space string // "": of the cell or none; else the stack's
	alias string // the object's name, with CELL for the cell's
	path  path
	way   string
	links bool // another object has the value or the key, or it is a number or an amount
}

// Kinds of results.
const (
	counted   = "counted"   // the outcome changed
	uncounted = "uncounted" // it did not
	skipped   = "skipped"   // the mutation could not be made
)

// result is what came of a mutation.
type result struct {
	candidate
	result   string
	why      string // of one that is not counted
	change   change
	target   string
	seen     string // what the workload shows
	answer   answer
	layer    bool
	cause    bool
	owner    bool
	fix      bool
	allClear bool
	findable bool // the old value is somewhere in the cluster
	tried    []attempt
	took     time.Duration
	lost     string        // why the cell is not healthy again; "": it is
	settled  time.Duration // until the outcome was clear
	asked    time.Duration // until there was an answer
}

// attempt is a printed fix that was applied.
type attempt struct {
	edit   string
	works  bool
	revert bool // the field has its old value then
	note   string
}

func measure(ctx context.Context, o options, out io.Writer) ([]result, error) {
	c, err := startCluster(ctx, o, clusterName)
	if c != nil {
		defer c.stop()
	}
	if err != nil {
		return nil, err
	}
	m := &measurement{main: c, options: o, out: out, end: time.Now().Add(o.total), yield: map[string]yield{}}
	return m.run(ctx)
}

// measurement is a run: workers take candidates in order until enough have counted. What all cells of a cluster share, its GPU
// stack, is broken in a second cluster with one cell, so that nobody waits for it.
type measurement struct {
	main *cluster
	options
	out io.Writer
	end time.Time

	mu      sync.Mutex
	queue   []candidate      // not tried yet, in the order of the seed
	yield   map[string]yield // by class of candidates
	cells   int              // made so far
	results []result
	counted int
	seen    map[string][]string
}

func (m *measurement) run(ctx context.Context) ([]result, error) {
	first, err := m.cell(ctx, m.main)
	if err != nil {
		return nil, err
	}
	if err := m.enumerate(ctx, first); err != nil {
		return nil, err
	}
	fmt.Fprintf(m.out, "%d mutations of %d kinds of objects\n", len(m.queue), m.kindsIn(m.queue))
	workers := m.options.cells
	if m.only != nil {
		workers = min(workers, len(m.only))
	}
	onStack := slices.ContainsFunc(m.queue, func(c candidate) bool {
		return c.space == stackNamespace && (m.only == nil || slices.Contains(m.only, c.index))
	})
	errs := make([]error, workers+1)
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			x := first
			if i > 0 {
				if x, errs[i] = m.cell(ctx, m.main); errs[i] != nil {
					return
				}
			}
			errs[i] = m.work(ctx, x, "")
		})
	}
	if onStack {
		wg.Go(func() { errs[workers] = m.workOnStack(ctx) })
	}
	wg.Wait()
	slices.SortFunc(m.results, func(a, b result) int { return a.index - b.index })
	if len(m.results) == 0 {
		return nil, errors.Join(errs...)
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(m.out, "note:", err)
	}
	return m.results, nil
}

// workOnStack tries the mutations of the GPU stack, in a cluster of their own.
func (m *measurement) workOnStack(ctx context.Context) error {
	c, err := startCluster(ctx, m.options, clusterName+"-stack")
	if c != nil {
		defer c.stop()
	}
	if err != nil {
		return err
	}
	x, err := m.cell(ctx, c)
	if err != nil {
		return err
	}
	return m.work(ctx, x, stackNamespace)
}

func (m *measurement) kindsIn(list []candidate) int {
	kinds := map[string]bool{}
	for _, c := range list {
		kinds[c.kind.name] = true
	}
	return len(kinds)
}

func (m *measurement) cell(ctx context.Context, c *cluster) (*cell, error) {
	m.mu.Lock()
	name := fmt.Sprintf("cell-%d", m.cells)
	m.cells++
	m.mu.Unlock()
	return newCell(ctx, c, name)
}

// enumerate lists every way to break every field of the objects that bear on a cell, in the order of the seed. Kinds take
// turns, so that those with few objects are not lost among the labels of nodes.
func (m *measurement) enumerate(ctx context.Context, x *cell) error {
	objects, err := x.bearing(ctx)
	if err != nil {
		return err
	}
	byKind := map[string][]candidate{}
	seen := map[string]map[string]bool{}
	mentions := mentionsOf(objects)
	for _, o := range objects {
		body := fresh(o.body).Object
		collect(body, "", seen)
		for _, p := range fieldsOf(body) {
			v, _ := get(body, p)
			for _, way := range ways(v, p) {
				c := candidate{kind: o.kind, alias: x.alias(o), path: p, way: way, links: mentions.links(o.kind.name, p, v)}
				if o.space() == stackNamespace {
					c.space = stackNamespace
				}
				byKind[o.kind.name] = append(byKind[o.kind.name], c)
			}
		}
	}
	m.seen = map[string][]string{}
	for field, values := range seen {
		for v := range values {
			m.seen[field] = append(m.seen[field], v)
		}
		slices.Sort(m.seen[field])
	}
	m.queue = interleave(byKind, rand.New(rand.NewPCG(m.seed, 0)))
	return nil
}

func interleave(byKind map[string][]candidate, r *rand.Rand) (out []candidate) {
	kinds := make([]string, 0, len(byKind))
	for k := range byKind {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	for _, k := range kinds {
		list := byKind[k]
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	for i := 0; ; i++ {
		any := false
		for _, k := range kinds {
			if i < len(byKind[k]) {
				c := byKind[k][i]
				c.index = len(out)
				out = append(out, c)
				any = true
			}
		}
		if !any {
			return out
		}
	}
}

// alias names an object in all cells alike. A volume's name is drawn, so it goes by its claim's.
func (x *cell) alias(o object) string {
	if claim, ok, _ := unstructured.NestedString(o.body, "spec", "claimRef", "name"); ok {
		return "of " + claim
	}
	return strings.ReplaceAll(o.name(), x.name, "CELL")
}

// yield is how many mutations of a class or a kind were made, and how many of them counted.
type yield struct{ tried, counted int }

// unlinked is the class of all fields that no other object mentions.
const unlinked = "unlinked"

// class is a part of a kind of objects: most labels of a node change nothing, and most fields of a template do.
func (c *candidate) class() string {
	o := object{kind: c.kind}
	depth := 2 // "metadata.labels"
	if o.works() {
		depth = 4 // "spec.template.spec.tolerations"
	}
	field := podField(o, c.path[:min(len(c.path), depth)])
	if strings.HasPrefix(field, "pod.") { // the same of all that make pods
		return field
	}
	return c.kind.name + " " + field
}

// next takes the first candidate of the order that is worth its time: classes that change no outcome are tried less and less
// often, by chance that the seed decides. Which mutation an index stands for does not depend on it.
func (m *measurement) next(ctx context.Context, space string) (candidate, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.counted >= m.count || time.Now().After(m.end) || ctx.Err() != nil {
		return candidate{}, false
	}
	for _, sure := range []bool{false, true} {
		for i, c := range m.queue {
			if c.space != space {
				continue
			}
			if m.only != nil && !slices.Contains(m.only, c.index) || m.only == nil && !sure && !m.worth(&c) {
				continue
			}
			m.queue = slices.Delete(m.queue, i, i+1)
			return c, true
		}
	}
	return candidate{}, false
}

func (m *measurement) worth(c *candidate) bool {
	// Of a class that was hardly tried, what is known of its kind and of all fields that nothing else mentions is the guess.
	kind, y := m.yield[c.kind.name], m.yield[c.class()]
	guess := float64(kind.counted+1) / float64(kind.tried+1)
	if !c.links {
		alone := m.yield[unlinked]
		guess *= (float64(alone.counted) + 1) / (float64(alone.tried) + 5)
	}
	chance := (float64(y.counted) + guess) / float64(y.tried+1)
	return rand.New(rand.NewPCG(m.seed, uint64(c.index))).Float64() < chance
}

func (m *measurement) add(r result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.results = append(m.results, r)
	if r.result == counted {
		m.counted++
	}
	classes := []string{r.kind.name, r.class()}
	if !r.links {
		classes = append(classes, unlinked)
	}
	for _, of := range classes {
		y := m.yield[of]
		if r.result != skipped { // which costs nothing
			y.tried++
		}
		if r.result == counted {
			y.counted++
		}
		m.yield[of] = y
	}
	if m.loud || r.result == counted && !r.right() {
		fmt.Fprintln(m.out, r.line())
	}
}

// work tries candidates of the space in the cell, and in its successors where it does not recover.
func (m *measurement) work(ctx context.Context, x *cell, space string) error {
	for {
		c, ok := m.next(ctx, space)
		if !ok {
			return nil
		}
		r := m.try(ctx, x, c)
		m.add(r)
		if r.lost == "" {
			continue
		}
		m.discard(ctx, x)
		var err error
		if x, err = m.cell(ctx, x.cluster); err != nil {
			return err
		}
	}
}

// discard lets a cell go that could not be healed.
func (m *measurement) discard(ctx context.Context, x *cell) {
	for _, o := range x.objects {
		if o.kind.name == "Namespace" || o.kind.name == "Pool" {
			_ = x.of(o.kind, o.space()).Delete(ctx, o.name(), metav1.DeleteOptions{})
		}
	}
}

// try makes one mutation and undoes it.
func (m *measurement) try(ctx context.Context, x *cell, c candidate) result {
	t := &trial{m: m, cell: x, result: result{candidate: c, result: skipped}, rand: rand.New(rand.NewPCG(m.seed, uint64(c.index)+1))}
	if !t.prepare(ctx) {
		return t.result
	}
	start := time.Now()
	t.run(ctx)
	if err := t.undo(ctx); err != nil {
		t.lost = err.Error()
	}
	t.took = time.Since(start)
	return t.result
}

// trial is one mutation in one cell.
type trial struct {
	m *measurement
	*cell
	result
	rand   *rand.Rand
	object object         // before
	body   map[string]any // broken
	wrote  bool
	since  time.Time // of the restart
}

// prepare draws the change, and finds out at no cost what the API server rejects.
func (t *trial) prepare(ctx context.Context) bool {
	var ok bool
	if t.object, ok = t.find(ctx); !ok {
		t.why = "the cell has no such object"
		return false
	}
	t.body, t.change, ok = breakField(t.object.body, t.path, t.way, t.own(t.m.seen), t.rand)
	if !ok || equal(t.body, t.object.body) {
		t.why = "this way leads to the same value"
		return false
	}
	u := fresh(t.body)
	u.SetResourceVersion((&unstructured.Unstructured{Object: t.object.body}).GetResourceVersion())
	after, err := t.of(t.object.kind, t.object.space()).Update(ctx, u, metav1.UpdateOptions{FieldValidation: strict, DryRun: []string{metav1.DryRunAll}})
	if err == nil && t.setAgain(after) {
		t.result.result, t.why = uncounted, "the API server sets the value again"
		return false
	}
	if err != nil && !apierrors.IsConflict(err) && !(fixed(err) && t.cell.renewable(t.object)) && t.object.kind.name != "Job" {
		t.why = "rejected: " + err.Error()
		return false
	}
	return true
}

func (t *trial) run(ctx context.Context) {
	if err := t.apply(ctx); err != nil {
		t.why = "rejected: " + err.Error()
		return
	}
	if live, err := t.live(ctx); err == nil && t.setAgain(live) {
		t.result.result, t.why = uncounted, "the API server sets the value again"
		return
	}
	s, err := t.show(ctx)
	if err != nil {
		t.why = err.Error()
		return
	}
	t.judge(ctx, s)
}

// setAgain says whether the live object is as before: a default came back.
func (t *trial) setAgain(live *unstructured.Unstructured) bool {
	return equal(fresh(live.Object).Object, fresh(t.object.body).Object)
}

// own are the strings of the cluster with this cell's name in place of the first one's.
func (t *trial) own(seen map[string][]string) map[string][]string {
	out := make(map[string][]string, len(seen))
	for k, list := range seen {
		for _, v := range list {
			out[k] = append(out[k], strings.ReplaceAll(v, "cell-0", t.cell.name))
		}
	}
	return out
}

func (t *trial) space() string {
	if t.candidate.space != "" {
		return t.candidate.space
	}
	return t.cell.name
}

// find reads the object of this cell.
func (t *trial) find(ctx context.Context) (object, bool) {
	list, err := t.of(t.candidate.kind, t.space()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return object{}, false
	}
	for i := range list.Items {
		o := object{t.candidate.kind, clone(list.Items[i].Object)}
		if t.cell.alias(o) == t.candidate.alias && (t.candidate.kind.namespaced || t.cell.mentions(&list.Items[i])) {
			return o, true
		}
	}
	return object{}, false
}

func (t *trial) live(ctx context.Context) (*unstructured.Unstructured, error) {
	return t.of(t.object.kind, t.object.space()).Get(ctx, t.object.name(), metav1.GetOptions{})
}

// apply writes the broken object.
func (t *trial) apply(ctx context.Context) error {
	live, err := t.live(ctx)
	if err != nil {
		return err
	}
	touched, err := t.cell.write(ctx, t.object, live, t.body)
	t.wrote = t.wrote || touched
	return err
}

// show starts the workloads anew around the broken object and waits for the outcome.
func (t *trial) show(ctx context.Context) (*sight, error) {
	t.since = time.Now()
	switch {
	case t.candidate.space == stackNamespace:
		time.Sleep(8 * time.Second) // the rollout over all nodes
	case !t.candidate.kind.namespaced:
		time.Sleep(time.Second) // the fleet and the schedulers follow
	}
	if !t.object.works() {
		if err := t.cell.restart(ctx, ""); err != nil && !created(err) {
			return nil, err
		}
	}
	return t.cell.settle(ctx)
}

// created says whether a pod was rejected when it was created: that is an outcome.
func created(err error) bool { return strings.Contains(err.Error(), "start ") }

// judge asks and scores, where the outcome changed.
func (t *trial) judge(ctx context.Context, s *sight) {
	if s.ill() == "" {
		t.result.result = uncounted
		t.why = "all workloads run"
		return
	}
	if t.target = t.askable(s); t.target == "" {
		t.why = "the workload was rejected when it was created: " + s.ill()
		return
	}
	t.settled = time.Since(t.since)
	a, still, err := t.ask(ctx)
	t.asked = time.Since(t.since)
	switch {
	case died(err):
		t.result.result, t.why, t.seen = counted, err.Error(), s.states[t.target]
		return
	case err != nil:
		t.why = err.Error()
		return
	case !still:
		t.result.result, t.why = uncounted, "it started late"
		return
	}
	t.result.result, t.answer, t.seen = counted, a, s.states[t.target]
	t.score(ctx)
	t.tryFixes(ctx)
	t.scoreFix()
}

// died says whether the program was killed by its own panic, for which Go exits with code 2, or took a question that it should know for wrong
// usage, which has the same code: a mutation to which it has no answer is one that it answers wrongly.
func died(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == 2
}

// askable is the workload to ask about: the broken one, else one of those that show the effect and exist.
func (t *trial) askable(s *sight) string {
	list := slices.DeleteFunc(s.changed(), func(w string) bool { return s.states[w] == "does not exist" })
	if slices.Contains(list, t.object.String()) {
		return t.object.String()
	}
	if len(list) == 0 {
		return ""
	}
	return list[t.rand.IntN(len(list))]
}

// ask asks until there is a cause. What is young may wait for something; only what is said after a minute is held against
// the answer. still says whether the workload does not run even then.
func (t *trial) ask(ctx context.Context) (a answer, still bool, err error) {
	for {
		if a, err = t.cluster.why(ctx, t.cell.name, t.target); err != nil {
			return a, false, err
		}
		s, err := t.cell.look(ctx)
		if err != nil {
			return a, false, err
		}
		if s.states[t.target] == "" {
			return a, false, nil
		}
		if !clear(a) || time.Since(t.since) > patience || ctx.Err() != nil {
			return a, true, nil
		}
		time.Sleep(3 * time.Second)
	}
}

// patience is a little more than the age until which `berth why` takes a pod for young.
const patience = 66 * time.Second

// clear says whether the answer is that nothing is wrong.
func clear(a answer) bool { return a.Layer == "none" && a.Cause != "unknown" }

// tryFixes applies printed fixes by their commands, the first to the world as it is, further ones to it broken again.
func (t *trial) tryFixes(ctx context.Context) {
	var list []int
	for i, f := range t.answer.Fixes {
		if f.Command != "" {
			list = append(list, i)
		}
	}
	if t.m.options.fixes > 0 && len(list) > t.m.options.fixes {
		t.rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		list = list[:t.m.options.fixes]
	}
	for n, i := range list {
		f := t.answer.Fixes[i]
		if n > 0 {
			if !t.again(ctx) {
				return
			}
			f.Command = t.commandNow(ctx, f.Edit, f.Command)
		}
		t.tried = append(t.tried, t.tryFix(ctx, f.Edit, f.Command))
	}
}

// again breaks the cell once more after a fix. It reports false where that does not succeed.
func (t *trial) again(ctx context.Context) bool {
	if t.undo(ctx) != nil || t.apply(ctx) != nil {
		return false
	}
	s, err := t.show(ctx)
	return err == nil && s.states[t.target] != ""
}

// commandNow is the command that a new answer has for the fix: putting the cell back and breaking it again counts revisions on, and
// pods have other names. A new answer without it leaves the old one.
func (t *trial) commandNow(ctx context.Context, edit, command string) string {
	a, err := t.cluster.why(ctx, t.cell.name, t.target)
	if err != nil {
		return command
	}
	for _, f := range a.Fixes {
		if counts.ReplaceAllString(f.Edit, "") == counts.ReplaceAllString(edit, "") && f.Command != "" {
			return f.Command
		}
	}
	return command
}

// counts are what of a fix's words differs from one time to the next: revisions, and the ends of pods' names.
var counts = regexp.MustCompile(`revision \d+|-[a-z0-9]{5}\b|-[a-z0-9]{8,10}-[a-z0-9]{5}\b`)

func (t *trial) tryFix(ctx context.Context, edit, command string) attempt {
	a := attempt{edit: edit}
	if err := t.cluster.sh(ctx, command); err != nil {
		a.note = err.Error()
		return a
	}
	var state string
	a.works = until(ctx, 40*time.Second, func() bool {
		s, err := t.cell.look(ctx)
		if err != nil {
			return false
		}
		state = s.states[t.target]
		return state == ""
	}) == nil
	if !a.works {
		a.note = state
	}
	if live, err := t.live(ctx); err == nil {
		now, ok := get(live.Object, t.path)
		a.revert = ok && equal(now, t.change.old)
	}
	return a
}

// undo puts everything back. The error says what of the cell is not healthy then.
func (t *trial) undo(ctx context.Context) error {
	if !t.wrote {
		return nil
	}
	if err := t.putBackBroken(ctx); err != nil {
		return fmt.Errorf("put %s back: %w", t.object, err)
	}
	if t.result.result == counted || t.result.result == skipped {
		return t.cell.restore(ctx)
	}
	return t.cell.recover(ctx, 40*time.Second)
}

func (t *trial) putBackBroken(ctx context.Context) error {
	if err := t.cell.putBack(ctx, t.object); err != nil {
		return err
	}
	if t.candidate.space == stackNamespace {
		time.Sleep(8 * time.Second)
	}
	return nil
}
